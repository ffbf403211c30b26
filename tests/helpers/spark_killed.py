"""Run by a test: ask a Spark cluster of two executors with and without one of them being killed, and print both."""

import contextlib
import json
import os
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

N_ROWS = 20_000
#: Rows in exact arithmetic, so that pandas can have the same ones; every 500th takes a while to read.
SLOW = """
SELECT id, id % 2 AS shop, (id * 7919) % 10007 / 64D +
    CASE WHEN id % 500 = 0 AND reflect('java.lang.Thread', 'sleep', 50L) = 'never' THEN 1D ELSE 0D END AS x
FROM range(0, {n}, 1, 6)
"""


def in_pandas():
    ids = np.arange(N_ROWS)
    return pd.DataFrame({"id": ids, "shop": ids % 2, "x": (ids * 7919) % 10007 / 64})


def home_in(folder):
    """Return a folder with links to all that Spark has: its workers write to the folder `work` of it."""
    import pyspark

    home = Path(folder) / "home"
    home.mkdir()
    for one in Path(pyspark.__file__).parent.iterdir():
        (home / one.name).symlink_to(one)
    return str(home)


def session(folder):
    """Start Spark with two workers, of one core each."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": folder,
    }
    builder = SparkSession.builder.master("local-cluster[2,1,512]").appName("killed")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Killer(threading.Thread):
    """Kill an executor in the middle of each of the first stages."""

    def __init__(self, context, stages):
        super().__init__(daemon=True)
        self._status, self._stages = context.statusTracker(), stages
        self.over, self.killed, self.failed = threading.Event(), {}, {}

    def run(self):
        while not self.over.wait(0.05):
            for stage in self._status.getActiveStageIds():
                info = self._look(stage)
                # Both executors are at work in one that reads rows.
                if info and info.numActiveTasks >= 2 and stage not in self.killed and len(self.killed) < self._stages:
                    self._kill(stage)
        for stage in self.killed:  # a task may have been found to fail when its stage was over
            self._look(stage)

    def _look(self, stage):
        info = self._status.getStageInfo(stage)
        if info is not None:
            before = self.failed.get((stage, info.currentAttemptId), 0)
            self.failed[stage, info.currentAttemptId] = max(before, info.numFailedTasks)
        return info

    def _kill(self, stage):
        for one in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):  # some are about to begin or to end
                if any("CoarseGrainedExecutorBackend" in part for part in one.cmdline()):
                    one.kill()
                    self.killed[stage] = one.pid
                    return


def ask(frame):
    """Return the ends of a mean of all rows and of each shop, in hexadecimal: to the last bit."""
    import outvote as ov

    scan = ov.scan(frame)
    one, table = scan.mean("x"), scan.mean("x", by="shop")
    lines = table.collect() if hasattr(table, "collect") else table.itertuples()
    ends = [one.estimate, *one.interval, *(end for line in lines for end in (line.low, line.high))]
    return [float(end).hex() for end in ends]


def main():
    import outvote.tables.gathered
    import outvote.tables.scan

    outvote.tables.gathered.FETCHED = outvote.tables.scan.FETCHED = 1000
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1", SPARK_HOME=home_in(folder))
        spark = session(folder)
        frame = spark.sql(SLOW.format(n=N_ROWS))
        undisturbed = ask(frame)
        killer = Killer(spark.sparkContext, 2)
        killer.start()
        disturbed = ask(frame)
        killer.over.set()
        killer.join()
        spark.stop()
    told = {"undisturbed": undisturbed, "disturbed": disturbed, "pandas": ask(in_pandas())}
    print(json.dumps(told | {"killed": len(killer.killed), "failed": sum(killer.failed.values())}))


if __name__ == "__main__":
    main()
