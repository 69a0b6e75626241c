// SPDX-License-Identifier: Apache-2.0
// Measures tasks by the work that is done in them, not by time.

/**
 * Runs work with a clock that goes on by a millisecond whenever it is looked at, so that a task ends after a fixed number
 * of steps.
 * @template T
 * @param {() => Promise<T>} work
 */
export async function byTicks(work) {
  const { now } = performance;
  let ticks = 0;
  performance.now = () => ticks++;
  try {
    return await work();
  } finally {
    performance.now = now;
  }
}

/**
 * Runs work by ticks, and returns its result, the number of its tasks and the most that one task has counted.
 * @template T
 * @param {(count: (n?: number) => void) => Promise<T>} work
 */
export async function inTasks(work) {
  let [tasks, most, here] = [0, 0, 0];
  const end = () => {
    tasks++;
    most = Math.max(most, here);
    here = 0;
  };
  const each = () => {
    end();
    timer = setImmediate(each);
  };
  let timer = setImmediate(each);
  try {
    const result = await byTicks(() => work((n = 1) => void (here += n)));
    end();
    return { result, tasks, most };
  } finally {
    clearImmediate(timer);
  }
}
