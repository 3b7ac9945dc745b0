"""One Spark session for all tests, tuned for many tiny jobs: interpreted, C1, one task."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from zonequake_analysis.session import Size, build_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = build_session(
        size=Size.SMALL,
        master="local[2]",
        settings={
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.shuffle.partitions": "1",
        },
    )
    yield session
    session.stop()
