"""Options for the Java processes of Spark that start quickly: for tests' sessions, and for programs that they start."""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
from tests.archive import QUICK, archive, make_archive, quick
from tests.kafka.jars import CACHE
from tests.once import made_once
from tests.require import require

_PYSPARK = Path(pyspark.__file__).parent
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Compiling a plan takes longer than a test's few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
PROGRAM = """
import sys
from pyspark.sql import SparkSession

to = sys.argv[1]
spark = SparkSession.builder.master("local[2]").getOrCreate()
rows = spark.range(9).selectExpr("id % 2 as topic", "cast(id as string) as value", "timestamp_millis(id) as timestamp")
rows.groupBy("topic").agg({"timestamp": "max"}).toDF("topic", "timestamp").write.parquet(f"{to}/parquet")
spark.read.parquet(f"{to}/parquet").orderBy("topic").collect()
rows.drop("topic").write.format("brokerless").option("topic", "any").mode("append").save(f"{to}/log")
read = spark.read.format("brokerless").load(f"{to}/log")
read.filter("offset > 3").orderBy("offset").collect(), read.createOrReplaceTempView("log")
spark.sql("select partition, count(*), max(md5(value)) from log group by partition").collect()
spark.sparkContext.parallelize([1, 2], 2).map(lambda each: each + 1).collect()
stream = spark.readStream.format("brokerless").option("startingOffsets", "earliest").load(f"{to}/log").drop("key")
query = stream.writeStream.foreachBatch(lambda batch, number: batch.collect()).trigger(availableNow=True).start()
query.awaitTermination()
spark.stop()
"""
"""Reads and writes in the ways of our tests, so that what these load is in the archive."""


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    require(found, "Java 17 or newer, for Spark")
    assert found is not None
    return found


@functools.cache
def spark_home() -> Path:
    """PySpark's Spark without ``python/lib/pyspark.zip``: Python workers that find it compile what they import from it,
    each for itself, which takes a second and more; without it they import the same modules, compiled, from PySpark."""
    digest = hashlib.sha256(str(_PYSPARK).encode()).hexdigest()[:16]

    def link(target: Path) -> None:
        for name in ("bin", "jars"):
            (target / name).symlink_to(_PYSPARK / name)

    return made_once(CACHE / f"spark-{pyspark.__version__}-{digest}", link)


def class_path() -> str:
    """As spark-submit has it: an archive is of no use where another one begins."""
    jars = spark_home() / "jars"
    return os.pathsep.join([f"{spark_home()}/conf", *map(str, jars.glob("slf4j-api-*.jar")), f"{jars}/*"])


def java_options() -> str:
    """With the archive of a session's classes, which is made if it is not there yet."""
    digest = hashlib.sha256(PROGRAM.encode()).hexdigest()[:8]
    path = archive(CACHE, f"spark-{digest}", java(), spark_home() / "jars")
    make_archive(path, run_program)
    return shlex.join(quick(path))


def run_program(option: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, **submit_arguments(shlex.join([*QUICK, option])), "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, directory], env=environment, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise RuntimeError(f"Spark does not start: {done.stderr[-3000:]}")


def submit_arguments(java_options: str, **more: str) -> dict[str, str]:
    """Variables of the environment: there PySpark looks for Spark, and for settings of the sessions that it starts."""
    settings = {
        **SETTINGS,
        "spark.driver.extraJavaOptions": java_options,
        "spark.executor.extraJavaOptions": java_options,
        **more,
    }
    arguments = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return {"SPARK_HOME": str(spark_home()), "PYSPARK_SUBMIT_ARGS": shlex.join([*arguments, "pyspark-shell"])}
