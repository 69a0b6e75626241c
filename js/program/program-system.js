// SPDX-License-Identifier: Apache-2.0
// The system as wisp-program.wasm sees it, on a thread that may wait: calls of WASI, which the C library makes, and the
// functions that wasm/program/system.c and signals.c import.

/** @typedef {import('../../types/exports.js').ProgramExports} ProgramExports */

/**
 * The program's surroundings: in Node the functions of node:fs and the process; in a page files that the user gives
 * (web-demo/given-files.js).
 * @typedef {object} Surroundings
 * @property {any} fs functions of node:fs: openSync, readSync, writeSync, fstatSync, statSync and so on
 * @property {number} pid
 * @property {number} [user] that the program runs as
 * @property {(file: number) => boolean} isTerminal says whether the descriptor is a terminal's
 * @property {(code: number) => never} exit ends the program
 * @property {(prompt: string) => Uint8Array | undefined} [readLine] lets the user of a terminal edit a line; undefined: it ended
 */

/** The numbers that WASI gives to errors. */
const ERRORS = {
  ...{ EACCES: 2, EAGAIN: 6, EBADF: 8, EBUSY: 10, EDQUOT: 19, EEXIST: 20, EFBIG: 22, EINTR: 27 },
  ...{ EINVAL: 28, EIO: 29, EISDIR: 31, ELOOP: 32, EMFILE: 33, ENAMETOOLONG: 37, ENFILE: 41 },
  ...{ ENODEV: 43, ENOENT: 44, ENOMEM: 48, ENOSPC: 51, ENOTDIR: 54, ENOTSUP: 58, ENXIO: 60 },
  ...{ EPERM: 63, EPIPE: 64, EROFS: 69, ESPIPE: 70, ETXTBSY: 74, EXDEV: 75 },
};

/** The numbers that the program shares with the thread that receives its signals. */
export const FLAG = { interrupted: 0, waits: 1, typed: 2 };

/** Values of FLAG.interrupted: by Ctrl-C, or to end. */
export const SIGNAL = { interrupt: 1, end: 2 };

const BUSY_MS = 10;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** @param {any} error */
const numberOf = ({ code }) =>
  Object.hasOwn(ERRORS, code) ? ERRORS[/** @type {'EIO'} */ (code)] : ERRORS.EIO;

/** @param {keyof typeof ERRORS} code */
const systemError = (code) => Object.assign(new Error(code), { code });

/** The system as one instance of the module sees it. */
export class ProgramSystem {
  /** @type {ProgramExports} */
  #wasm = /** @type {any} */ (undefined);
  #args;
  #variables;
  #flags;
  #fs;
  #surroundings;
  /** Where the next byte of a regular file is read or written: Node cannot seek. @type {Map<number, number>} */
  #positions = new Map();
  /** Files that the program has created and neither renamed nor deleted. @type {Set<string>} */
  #created = new Set();

  /**
   * @param {readonly string[]} args of main()
   * @param {readonly string[]} variables of the environment, as NAME=value
   * @param {Int32Array} flags shared with the thread that receives signals
   * @param {Surroundings} surroundings
   */
  constructor(args, variables, flags, surroundings) {
    const ended = (/** @type {string} */ text) => encoder.encode(`${text}\0`);
    this.#args = args.map(ended);
    this.#variables = variables.map(ended);
    this.#flags = flags;
    this.#fs = surroundings.fs;
    this.#surroundings = surroundings;
  }

  /**
   * Runs the program to its end, which is that of exit().
   * @param {WebAssembly.Module} module
   */
  async run(module) {
    try {
      const { exports } = await WebAssembly.instantiate(module, {
        wasi_snapshot_preview1: this.#wasi(),
        wisp: this.#functions(),
        env: { emscripten_notify_memory_growth() {} },
      });
      this.#wasm = /** @type {any} */ (exports);
      this.#wasm._start();
    } catch (error) {
      for (const path of this.#created) this.#fs.rmSync(path, { force: true });
      throw error;
    }
  }

  get #view() {
    return new DataView(this.#wasm.memory.buffer);
  }

  /** @param {number} at @param {number} length */
  #bytes(at, length) {
    return new Uint8Array(this.#wasm.memory.buffer, at >>> 0, length);
  }

  /** @param {number} at */
  #text(at) {
    const all = new Uint8Array(this.#wasm.memory.buffer);
    return decoder.decode(all.slice(at >>> 0, all.indexOf(0, at >>> 0)));
  }

  /**
   * Reads or writes the parts of memory that `parts` lists, until the system moves fewer bytes than a part has.
   * @param {(bytes: Uint8Array, done: number) => number} move moves bytes, of which `done` were before; returns how many
   * @param {number} parts @param {number} n @param {number} sum receives the number of bytes
   */
  #move(move, parts, n, sum) {
    return this.#error(() => {
      let done = 0;
      for (let i = 0; i < n; i++) {
        const at = (parts >>> 0) + 8 * i;
        const bytes = this.#bytes(
          this.#view.getUint32(at, true),
          this.#view.getUint32(at + 4, true),
        );
        const moved = bytes.length && this.#unlessBusy(() => move(bytes, done));
        done += moved;
        if (moved < bytes.length) break;
      }
      this.#view.setUint32(sum >>> 0, done, true);
    });
  }

  /**
   * Reads as readSync does. On Windows the end of a pipe is an error.
   * @param {number} file
   * @param {Uint8Array} bytes
   * @param {number | null} from
   */
  #readSome(file, bytes, from) {
    try {
      return this.#fs.readSync(file, bytes, 0, bytes.length, from);
    } catch (error) {
      if (/** @type {any} */ (error).code === 'EOF') return 0;
      throw error;
    }
  }

  /** @param {() => void} work @returns {number} 0, or the number of the error */
  #error(work) {
    try {
      work();
      return 0;
    } catch (error) {
      return numberOf(error);
    }
  }

  /** @param {() => number | void} work @returns {number} what it returns, or the number of the error below 0 */
  #result(work) {
    try {
      return work() ?? 0;
    } catch (error) {
      return -numberOf(error);
    }
  }

  /**
   * Waits while a descriptor that another program has made non-blocking is not ready.
   * @param {() => number} work
   */
  #unlessBusy(work) {
    for (;;) {
      try {
        return work();
      } catch (error) {
        if (numberOf(error) !== ERRORS.EAGAIN) throw error;
        if (Atomics.wait(this.#flags, FLAG.interrupted, 0, BUSY_MS) === 'not-equal') {
          throw systemError('EINTR');
        }
      }
    }
  }

  /**
   * Says while it works that the program waits for another one, and holds no file: a signal then ends it. One that came
   * just before ends the wait.
   * @template T
   * @param {() => T} work
   */
  #waiting(work) {
    Atomics.store(this.#flags, FLAG.waits, 1);
    try {
      if (Atomics.load(this.#flags, FLAG.interrupted)) throw systemError('EINTR');
      return work();
    } finally {
      Atomics.store(this.#flags, FLAG.waits, 0);
    }
  }

  #wasi() {
    const positions = this.#positions;
    /** @param {number} file @param {number} moved bytes */
    const advance = (file, moved) => {
      const position = positions.get(file);
      if (position !== undefined) positions.set(file, position + moved);
      return moved;
    };
    /** @param {Uint8Array[]} texts @returns {(count: number, size: number) => number} */
    const sizesOf = (texts) => (count, size) => {
      this.#view.setUint32(count >>> 0, texts.length, true);
      const bytes = texts.reduce((sum, text) => sum + text.length, 0);
      this.#view.setUint32(size >>> 0, bytes, true);
      return 0;
    };
    /** @param {Uint8Array[]} texts @returns {(list: number, to: number) => number} */
    const copiesOf = (texts) => (list, to) => {
      for (const [i, text] of texts.entries()) {
        this.#view.setUint32((list >>> 0) + 4 * i, to, true);
        this.#bytes(to, text.length).set(text);
        to += text.length;
      }
      return 0;
    };
    return {
      args_sizes_get: sizesOf(this.#args),
      args_get: copiesOf(this.#args),
      environ_sizes_get: sizesOf(this.#variables),
      environ_get: copiesOf(this.#variables),
      proc_exit: (/** @type {number} */ code) => this.#surroundings.exit(code),
      /** @param {number} file @param {number} parts @param {number} n @param {number} sum */
      fd_read: (file, parts, n, sum) =>
        this.#move(
          (bytes) => {
            const from = positions.get(file) ?? null;
            const read = () => this.#readSome(file, bytes, from);
            return advance(file, from === null ? this.#waiting(read) : read());
          },
          parts,
          n,
          sum,
        ),
      /** @param {number} file @param {number} parts @param {number} n @param {bigint} from @param {number} sum */
      fd_pread: (file, parts, n, from, sum) =>
        this.#move(
          (bytes, done) => this.#fs.readSync(file, bytes, 0, bytes.length, Number(from) + done),
          parts,
          n,
          sum,
        ),
      /** @param {number} file @param {number} parts @param {number} n @param {number} sum */
      fd_write: (file, parts, n, sum) =>
        this.#move(
          (bytes) =>
            advance(
              file,
              this.#fs.writeSync(file, bytes, 0, bytes.length, positions.get(file) ?? null),
            ),
          parts,
          n,
          sum,
        ),
      /** @param {number} file @param {bigint} offset @param {number} from @param {number} to */
      fd_seek: (file, offset, from, to) =>
        this.#error(() => {
          const position = positions.get(file);
          if (position === undefined) throw systemError('ESPIPE');
          const base = [0, position, this.#fs.fstatSync(file).size][from];
          positions.set(file, base + Number(offset));
          this.#view.setBigUint64(to >>> 0, BigInt(base) + offset, true);
        }),
      /** @param {number} file @param {number} parts @param {number} n @param {bigint} to @param {number} sum */
      fd_pwrite: (file, parts, n, to, sum) =>
        this.#move(
          (bytes, done) => this.#fs.writeSync(file, bytes, 0, bytes.length, Number(to) + done),
          parts,
          n,
          sum,
        ),
      fd_sync: (/** @type {number} */ file) => this.#error(() => this.#fs.fsyncSync(file)),
      fd_close: (/** @type {number} */ file) =>
        this.#error(() => {
          positions.delete(file);
          this.#fs.closeSync(file);
        }),
      /** The time of day in nanoseconds. @param {number} _clock @param {bigint} _precision @param {number} to */
      clock_time_get: (_clock, _precision, to) => {
        this.#view.setBigUint64(to >>> 0, BigInt(Date.now()) * 1_000_000n, true);
        return 0;
      },
      /** Says whether the descriptor is a terminal's. @param {number} file @param {number} to 24 bytes */
      fd_fdstat_get: (file, to) => {
        this.#bytes(to, 24).fill(0)[0] = this.#surroundings.isTerminal(file) ? 2 : 4; // a character device, or a file
        return 0;
      },
    };
  }

  #functions() {
    /** @param {any} info @param {number} to */
    const put = (info, to) => {
      const { dev, ino, mode, nlink, uid, gid, size, mtimeNs, ctimeNs } = info;
      const numbers = [dev, ino, mode, nlink, uid, gid, size, mtimeNs, ctimeNs];
      const view = this.#view;
      for (const [i, number] of numbers.entries())
        view.setBigUint64((to >>> 0) + 8 * i, BigInt.asUintN(64, number), true);
    };
    return {
      interrupted: () => Atomics.load(this.#flags, FLAG.interrupted),
      pid: () => this.#surroundings.pid,
      user: () => this.#surroundings.user ?? 0,
      go_on: () =>
        Number(
          Atomics.compareExchange(this.#flags, FLAG.interrupted, SIGNAL.interrupt, 0) ===
            SIGNAL.interrupt,
        ),
      seconds: () => {
        if (Atomics.load(this.#flags, FLAG.interrupted)) this.#wasm.cancel();
        return performance.now() / 1000;
      },
      /** @param {number} at @param {number} creates @param {number} waits */
      open: (at, creates, waits) =>
        this.#result(() => {
          const path = this.#text(at);
          const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_NONBLOCK = 0 } = this.#fs.constants;
          const flags = creates ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY | (waits ? 0 : O_NONBLOCK);
          const open = () => this.#fs.openSync(path, flags, 0o666);
          const file = waits && !creates ? this.#waiting(open) : open();
          if (creates) this.#created.add(path);
          if (this.#fs.fstatSync(file).isFile()) this.#positions.set(file, 0);
          return file;
        }),
      /** @param {number} path @param {number} file @param {number} follows @param {number} to */
      stat: (path, file, follows, to) =>
        this.#result(() => {
          const bigint = /** @type {const} */ ({ bigint: true });
          if (!path) put(this.#fs.fstatSync(file, bigint), to);
          else
            put((follows ? this.#fs.statSync : this.#fs.lstatSync)(this.#text(path), bigint), to);
        }),
      /** @param {number} path @param {number} mode */
      access: (path, mode) => this.#result(() => this.#fs.accessSync(this.#text(path), mode)),
      /** @param {number} path @param {number} to @param {number} capacity */
      realpath: (path, to, capacity) =>
        this.#result(() => {
          const bytes = encoder.encode(`${this.#fs.realpathSync(this.#text(path))}\0`);
          if (bytes.length > capacity) return -ERRORS.ENAMETOOLONG;
          this.#bytes(to, bytes.length).set(bytes);
        }),
      /** Writes the names in a folder, if they fit, and returns their bytes. */
      list: (
        /** @type {number} */ path,
        /** @type {number} */ to,
        /** @type {number} */ capacity,
      ) =>
        this.#result(() => {
          const names = this.#fs
            .readdirSync(this.#text(path))
            .map((/** @type {string} */ name) => `${name}\0`);
          const bytes = encoder.encode(names.join(''));
          if (bytes.length <= capacity) this.#bytes(to, bytes.length).set(bytes);
          return bytes.length;
        }),
      /** @param {number} prompt @param {number} to @param {number} capacity */
      line: (prompt, to, capacity) =>
        this.#result(() => {
          const line = this.#waiting(() => this.#surroundings.readLine?.(this.#text(prompt)));
          if (!line) return -1;
          const bytes = line.subarray(0, capacity);
          this.#bytes(to, bytes.length).set(bytes);
          return bytes.length;
        }),
      /** @param {number} from @param {number} to */
      rename: (from, to) =>
        this.#result(() => {
          this.#fs.renameSync(this.#text(from), this.#text(to));
          this.#created.delete(this.#text(from));
        }),
      unlink: (/** @type {number} */ path) =>
        this.#result(() => {
          this.#fs.unlinkSync(this.#text(path));
          this.#created.delete(this.#text(path));
        }),
      /** @param {number} file @param {number} mode */
      chmod: (file, mode) => this.#result(() => this.#fs.fchmodSync(file, mode)),
      /** @param {number} file @param {number} user @param {number} group */
      chown: (file, user, group) => this.#result(() => this.#fs.fchownSync(file, user, group)),
    };
  }
}
