"""A Kafka broker in KRaft mode with a folder and ports of its own, and what tests put into its topics."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cdcwb.machine import find_java

__all__ = ["Broker", "jars"]

_STARTS = 120.0  # seconds until a broker that does not answer has failed
_OF_KEY = "of-the-key"
_LOGGING = """
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c %m%n
"""


def jars() -> Path:
    """The folder of the broker's jars, which ``make test-live`` fills (``scripts/live_jars.sh``)."""
    folder = Path(os.environ.get("CDCWB_LIVE_JARS", ""))
    assert folder.is_dir(), "CDCWB_LIVE_JARS names no folder: run these tests with `make test-live`"
    return folder


class Broker:
    """A broker that listens on the loopback address. ``users``: its clients have to name one of these with the
    password (SASL PLAIN); ``tls``: with SCRAM-SHA-512, through TLS with the certificate in ``authority``."""

    def __init__(self, folder: Path, users: dict[str, str] | None = None, tls: bool = False) -> None:
        self.folder = folder
        self.users = users or {}
        self.authority = folder / "authority.pem" if tls else None
        self.port, self._controller = _free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log4j2.properties").write_text(_LOGGING)
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in self._configuration().items()))
        cluster = urlsafe_b64encode(b"c" + uuid.uuid4().bytes[1:]).decode().rstrip("=")  # a hyphen cannot be first
        format_storage = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings)]
        if self.authority is not None:
            self._make_certificate(self.authority)
            for name, password in self.users.items():
                format_storage += ["--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]"]
        done = subprocess.run(self._java(*format_storage), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def client(self) -> dict[str, str]:
        """What a client is configured with."""
        found = {"bootstrap.servers": self.address}
        for name, password in self.users.items():
            found |= {"security.protocol": self._protocol, "sasl.mechanism": self._mechanism}
            found |= {"sasl.username": name, "sasl.password": password}
        if self.authority is not None:
            found["ssl.ca.location"] = str(self.authority)
        return found

    @property
    def _protocol(self) -> str:
        if not self.users:
            return "PLAINTEXT"
        return "SASL_PLAINTEXT" if self.authority is None else "SASL_SSL"

    @property
    def _mechanism(self) -> str:
        return "PLAIN" if self.authority is None else "SCRAM-SHA-512"

    def start(self) -> None:
        """Starts it, and returns when it answers."""
        assert self._process is None
        self._log = (self.folder / "broker.log").open("ab")
        self._process = subprocess.Popen(
            self._java("kafka.Kafka", str(self._settings)), stdout=self._log, stderr=subprocess.STDOUT
        )
        until = time.monotonic() + _STARTS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise AssertionError((self.folder / "broker.log").read_text()[-3000:])

    def kill(self) -> None:
        """Ends it at once, as a failing machine does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends it in order."""
        self._end(signal.SIGTERM)

    def create(self, topic: str, partitions: int = 1, **configuration: str) -> None:
        """A new topic; it can be written to when this returns."""
        one = NewTopic(topic, partitions, 1, config={name.replace("_", "."): v for name, v in configuration.items()})
        admin = AdminClient(self.client)
        admin.create_topics([one], operation_timeout=30)[topic].result(60)

    def send(self, messages: Iterable[dict[str, Any]]) -> int:
        """Writes messages (the arguments of ``Producer.produce``) and returns how many, when the broker has all."""
        producer = Producer(self.client | {"linger.ms": "50", "acks": "all", "enable.idempotence": "true"})
        failed: list[Any] = []
        count = 0
        for count, message in enumerate(messages, 1):
            while True:
                try:
                    producer.produce(
                        **message, on_delivery=lambda error, _: failed.append(error) if error is not None else None
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            if not count % 1000:
                producer.poll(0)
        assert producer.flush(120) == 0
        assert not failed
        return count

    def send_files(self, folder: Path, prefix: str = "") -> int:
        """Creates the topics of a generated capture in Parquet, with a prefix to their names, and writes its messages
        to their partitions; each gets the offset that it has in the files."""
        files = sorted(folder.rglob("*.parquet"))
        partitions: dict[str, int] = {}
        for path in files:
            for row in (
                pq.read_table(path, columns=["topic", "partition"])
                .group_by(["topic", "partition"])
                .aggregate([])
                .to_pylist()
            ):
                topic = prefix + row["topic"]
                partitions[topic] = max(partitions.get(topic, 0), row["partition"] + 1)
        for topic, count in partitions.items():
            self.create(topic, count)
        return self.send(message for path in files for message in _messages(path, prefix))

    def _answers(self) -> bool:
        try:
            return bool(AdminClient(self.client | {"log_level": "0"}).list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _java(self, *arguments: str) -> list[str]:
        java, _ = find_java()
        assert java is not None
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        options.append(f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}")
        return [str(java.home / "bin" / "java"), *options, "-cp", f"{jars()}/*", *arguments]

    def _make_certificate(self, authority: Path) -> None:
        """A key for the loopback address, whose certificate is its own authority."""
        keytool = [self._java()[0].removesuffix("java") + "keytool", "-keystore", str(self.folder / "key.p12")]
        keytool += ["-storepass", _OF_KEY, "-alias", "broker"]
        generate = [
            "-genkeypair",
            "-keyalg",
            "EC",
            "-dname",
            "CN=broker",
            "-ext",
            "san=ip:127.0.0.1",
            "-validity",
            "30",
        ]
        for more in (generate, ["-exportcert", "-rfc", "-file", str(authority)]):
            done = subprocess.run([*keytool, *more], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr

    def _configuration(self) -> dict[str, Any]:
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"CLIENTS://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"CLIENTS://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENTS",
            "listener.security.protocol.map": f"CLIENTS:{self._protocol},CONTROLLER:PLAINTEXT",
            "log.dirs": self.folder / "data",
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "broker.session.timeout.ms": 3000,  # after a kill it may come back as soon
            "broker.heartbeat.interval.ms": 500,
            "auto.create.topics.enable": "false",
            "log.retention.ms": -1,  # generated messages have times of their own
            "num.network.threads": 2,
            "num.io.threads": 2,
        }
        if self.users:
            (name, password), *_ = self.users.items()
            kind = "plain.Plain" if self.authority is None else "scram.Scram"
            login = (
                f'org.apache.kafka.common.security.{kind}LoginModule required username="{name}" password="{password}"'
            )
            if self.authority is None:  # it knows no others
                login += "".join(f' user_{user}="{word}"' for user, word in self.users.items())
            settings |= {
                "sasl.enabled.mechanisms": self._mechanism,
                "sasl.mechanism.inter.broker.protocol": self._mechanism,
                f"listener.name.clients.{self._mechanism.lower()}.sasl.jaas.config": f"{login};",
            }
        if self.authority is not None:
            settings |= {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": self.folder / "key.p12",
                "ssl.keystore.password": _OF_KEY,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.authority,
            }
        return settings


def _messages(path: Path, prefix: str) -> Iterable[dict[str, Any]]:
    for batch in pq.ParquetFile(path).iter_batches(2000):
        for row in batch.to_pylist():
            yield {
                "topic": prefix + row["topic"],
                "partition": row["partition"],
                "key": row["key"],
                "value": row["value"],
                "timestamp": int(row["timestamp"].timestamp() * 1000),
            }


def _free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
