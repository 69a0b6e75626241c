# SPDX-License-Identifier: Apache-2.0
"""Ray Data, Daft and Spark with two processes, beside one process and beside two that no engine connects.

    cd build/python && python ../../bench/engines.py [--texts 32000] [--workers 2] [bare] [ray] [daft] [spark]

Each engine embeds a quarter of the texts, which starts it, then the quarter again, then all. Prints the texts a second of the last job,
and those of what it has more than the second: the speed of a longer job, without what each job starts with (Ray's
workers). Beside each is its share of (workers x one process). Needs `make python` and the packages of tools/requirements-adapters.txt.
"""

import argparse
import importlib.metadata
import os
import subprocess
import sys
import time

os.environ["PYTHONPATH"] = os.getcwd()  # workers import the package from this folder
sys.path.insert(0, os.getcwd())


def texts_of(count):
    return [f"the {i % 997} cats sleep on the sofa of house number {i % 89}" for i in range(count)]


def alone(texts):
    """Returns the texts a second of one process with one thread."""
    from wisp_engine import Embedder

    embedder = Embedder(threads=1)
    embedder.encode(texts[:200])
    begun = time.perf_counter()
    embedder.encode(texts)
    return len(texts) / (time.perf_counter() - begun)


def rates(texts, prepare, run):
    """Returns the texts a second of a job with all texts, and of what it has more than one with a quarter."""
    part, seconds = texts[: len(texts) // 4], []
    for job in (part, part, texts):
        table = prepare(job)
        begun = time.perf_counter()
        run(table)
        seconds.append(time.perf_counter() - begun)
    return len(texts) / seconds[2], (len(texts) - len(part)) / (seconds[2] - seconds[1])


def bare(texts, workers):
    """Processes that share nothing: what the machine gives at most."""
    words = [sys.executable, __file__, "--texts", str(len(texts) // workers), "part"]
    begun = time.perf_counter()
    parts = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(workers)]
    without_start = sum(float(part.communicate()[0]) for part in parts)
    return len(texts) / (time.perf_counter() - begun), without_start


def with_ray(texts, workers):
    import ray

    import wisp_engine.ray

    ray.init(num_cpus=workers + 1, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    made = rates(texts, lambda job: ray.data.from_items([{"t": t} for t in job]).repartition(4 * workers).materialize(),
                 lambda table: wisp_engine.ray.embed(table, "t", workers=workers).materialize())
    ray.shutdown()
    return made


def with_daft(texts, workers):
    import daft

    import wisp_engine.daft

    return rates(texts, lambda job: daft.from_pydict({"t": job}).collect(),
                 lambda frame: frame.with_column("v", wisp_engine.daft.embed(daft.col("t"))).collect())


def with_spark(texts, workers):
    from pyspark.sql import SparkSession

    import wisp_engine.spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master(f"local[{workers}]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    vectors = wisp_engine.spark.embed_udf()

    def prepare(job):
        frame = spark.createDataFrame([(text,) for text in job], "t string").repartition(4 * workers).cache()
        frame.count()
        return frame

    made = rates(texts, prepare,
                 lambda frame: frame.withColumn("v", vectors("t")).write.format("noop").mode("overwrite").save())
    spark.stop()
    return made


ENGINES = {"bare": bare, "ray": with_ray, "daft": with_daft, "spark": with_spark}


def version(name):
    return name if name == "bare" else f"{name} {importlib.metadata.version('pyspark' if name == 'spark' else name)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=32000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("engines", nargs="*")
    options = parser.parse_args()
    texts = texts_of(options.texts)
    if options.engines == ["part"]:
        print(alone(texts))
        return
    one = alone(texts[: len(texts) // 4])
    print(f"{options.texts} texts, {options.workers} workers, one process {one:.0f} texts/s\n")
    print("| engine | a job | of the workers' speed | more of it | of the workers' speed |\n|---|---|---|---|---|")
    for name in options.engines or ENGINES:
        try:
            made = ENGINES[name](texts, options.workers)
        except ImportError as error:
            print(f"| {name} | not installed: {error} | | | |")
            continue
        cells = [f"{rate:.0f} | {rate / one / options.workers:.2f}" for rate in made]
        print(f"| {version(name)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
