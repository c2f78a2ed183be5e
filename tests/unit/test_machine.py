"""What the machine offers is found where it stands, told apart, and asked for in one line where it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcwb import doctor, machine
from cdcwb.doctor import Check
from cdcwb.errors import MissingDependencyError
from cdcwb.machine import Java
from cdcwb.spark import session


def jdk(folder: Path, release: str | None, prints: str = "") -> Path:
    """A folder that looks like a Java runtime; ``prints`` is what its `java -version` says."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{prints}' >&2\n")
    program.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return folder


@pytest.fixture
def no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Java of this machine is out of sight, but for what a test names."""
    monkeypatch.setattr(machine, "_JVM_FOLDERS", ())


@pytest.mark.parametrize(
    ("version", "major", "usable"),
    [("17", 17, True), ("17.0.19", 17, True), ("21-ea", 21, True), ("1.8.0_392", 8, False), ("11.0.2", 11, False)],
)
def test_java_versions_are_told_apart(version: str, major: int, usable: bool) -> None:
    java = Java(Path("/x"), version, "PATH")
    assert (java.major, java.usable) == (major, usable)


def test_the_version_is_read_without_starting_java(tmp_path: Path) -> None:
    home = jdk(tmp_path, "21.0.4", prints='openjdk version "99"')
    assert machine.java_at(home, "PATH") == Java(home, "21.0.4", "PATH")


def test_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    home = jdk(tmp_path, None, prints='openjdk version "17.0.9" 2023-10-17')
    assert machine.java_at(home, "PATH") == Java(home, "17.0.9", "PATH")


def test_an_unusable_java_home_does_no_harm(tmp_path: Path, no_folders: None) -> None:
    old, new = jdk(tmp_path / "old", "11.0.2"), jdk(tmp_path / "new", "17.0.19")
    found, seen = machine.find_java({"JAVA_HOME": str(old), "PATH": f"{new}/bin"})
    assert found == Java(new, "17.0.19", "PATH")
    assert [java.version for java in seen] == ["11.0.2", "17.0.19"]


def test_java_home_comes_before_path(tmp_path: Path, no_folders: None) -> None:
    first, second = jdk(tmp_path / "a", "21.0.1"), jdk(tmp_path / "b", "17.0.19")
    found, _ = machine.find_java({"JAVA_HOME": str(first), "PATH": f"{second}/bin"})
    assert found == Java(first, "21.0.1", "JAVA_HOME")


def test_a_link_on_path_leads_to_the_runtime(tmp_path: Path, no_folders: None) -> None:
    home = jdk(tmp_path / "jdk", "17.0.19")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    found, _ = machine.find_java({"PATH": str(tmp_path / "bin")})
    assert found == Java(home.resolve(), "17.0.19", "PATH")


def test_missing_java_is_said_in_one_line(tmp_path: Path, no_folders: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(jdk(tmp_path, "11.0.2")))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError) as caught:
        session.get_spark()
    message = str(caught.value)
    assert "\n" not in message
    for part in ("Java 17 or 21", "Java 11.0.2", str(tmp_path), "openjdk-17-jre-headless"):
        assert part in message


@pytest.mark.parametrize(
    ("gib", "mib"), [(1, 1024), (2, 1024), (4, 1638), (8, 3276), (16, 6553), (24, 8192), (512, 8192)]
)
def test_the_jvm_gets_a_share_of_the_memory(gib: int, mib: int) -> None:
    assert session.driver_memory(gib << 30) == mib


@pytest.mark.parametrize(
    ("lines", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "max"}, None),
        ("0::/user/job\n", {"user/memory.max": "2147483648", "user/job/memory.max": "max"}, 2 << 30),
        ("0::/elsewhere\n", {"memory.max": "1073741824"}, 1 << 30),
        ("5:cpu,memory:/job\n", {"memory/job/memory.limit_in_bytes": "536870912"}, 512 << 20),
        ("4:memory:/\n0::/\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, 9223372036854771712),
        ("3:cpuset:/\n", {"memory.max": "1"}, None),
    ],
)
def test_the_limit_of_a_container_is_found(
    tmp_path: Path, lines: str, files: dict[str, str], limit: int | None
) -> None:
    groups, mounts = tmp_path / "cgroup", tmp_path / "mounts"
    groups.write_text(lines)
    for name, text in files.items():
        (mounts / name).parent.mkdir(parents=True, exist_ok=True)
        (mounts / name).write_text(f"{text}\n")
    assert machine.memory_limit(groups, mounts) == limit


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert machine.memory_limit(tmp_path / "none") is None


def test_memory_is_never_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = machine.memory_bytes()
    monkeypatch.setattr(machine, "memory_limit", lambda: 1 << 30)
    assert machine.memory_bytes() == min(whole, 1 << 30)


def check(name: str) -> Check:
    (found,) = (one for one in doctor.examine() if one.name == name)
    return found


def test_the_doctor_looks_at_everything_and_finds_nothing_amiss() -> None:
    checks = doctor.examine()
    wanted = {"Python", "cdcwb", "pyspark", "pandas", "Java", "memory", "Chromium", "chromedriver"}
    assert wanted <= {one.name for one in checks}
    assert [one for one in checks if not one.ok and not one.optional] == []
    assert all(bool(one.hint) != one.ok for one in checks)


def test_the_doctor_names_every_java_that_will_not_do(
    tmp_path: Path, no_folders: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(jdk(tmp_path, "25.0.1")))
    monkeypatch.setenv("PATH", str(tmp_path))
    java = check("Java")
    assert not java.ok
    assert java.found == f"25.0.1 in {tmp_path}"
    assert java.needed == "17 or 21"


def test_the_doctor_says_which_package_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor.metadata.version
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "1.5.3" if name == "pandas" else real(name))
    pandas = check("pandas")
    assert (pandas.ok, pandas.found) == (False, "1.5.3")
    assert pandas.hint.startswith("pip install 'pandas")


def test_a_browser_and_a_driver_of_different_versions_do_not_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("chromium", "Chromium 150.0.1"), ("chromedriver", "ChromeDriver 149.0.2")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{text}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (check("Chromium").ok, check("chromedriver").ok) == (True, False)


def test_what_the_user_has_set_for_spark_is_found(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.master  local[3]\nspark.ui.enabled=true\nspark.driver.extraJavaOptions -Da=b -Dc=d\n"
    )
    given = session._given_settings(
        {
            "SPARK_CONF_DIR": str(tmp_path),
            "PYSPARK_SUBMIT_ARGS": "--master 'local[1]' --conf spark.a='b c' --driver-memory 3g pyspark-shell",
        }
    )
    assert given == {
        "spark.master": "local[1]",
        "spark.ui.enabled": "true",
        "spark.driver.extraJavaOptions": "-Da=b -Dc=d",
        "spark.a": "b c",
        "spark.driver.memory": "3g",
    }
