"""docs/share.md, followed to the letter by two accounts of this machine on a fresh PostgreSQL."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from accounts import accounts, zen_for_everybody
from needs import needs
from postgres import PROGRAMS, Server

PAGE = Path(__file__).parents[2] / "docs" / "share.md"
MOST_COMMANDS = 10
STUDY = """\
#!/bin/sh
#ZEN$ PARAM n = { 1:3 }
#ZEN$ RUN "sh matmul.sh {n}"
#ZEN$ METRIC square FROM stdout REGEX "square (.*)"
echo "square $(($1 * $1))"
"""


class PackagedServer(Server):
    """A server as packages install it: accounts log in as roles of the same name."""

    def start(self):
        (self.data / "pg_hba.conf").write_text("local all all peer map=owner\n")
        # The superuser of these tests is called zen; packages call it as its account.
        (self.data / "pg_ident.conf").write_text("owner postgres zen\nowner /^(.*)$ \\1\n")
        self.folder.chmod(0o711)
        super().start()


def commands():
    """The commands of the page: of the administrator, and of each of the two."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [block.strip().splitlines() for block in blocks[:2]]


def test_it_takes_no_more_than_ten_commands():
    first, each = commands()
    assert len(first) + 2 * len(each) <= MOST_COMMANDS


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may create accounts")
def test_two_accounts_work_on_one_database_by_the_commands_of_the_page():
    needs(*PROGRAMS, "useradd", "userdel", "runuser", "createuser", "createdb")
    first, each = commands()
    server = PackagedServer()
    try:
        with accounts("alice", "bob") as made, zen_for_everybody() as programs:
            names = re.compile(rf"\b({'|'.join(made)})\b")

            def follow(lines, account, folder):
                """Run the lines in one shell of the account; ``sudo -u postgres`` is the owner."""
                text = names.sub(lambda m: made[m[1]], "\n".join(lines))
                text = text.replace("sudo -u postgres ", "")
                environment = {
                    "PATH": f"{programs}:/usr/bin:/bin:{os.environ['PATH']}",
                    "HOME": folder, "PGHOST": str(server.folder), "ZENTURIO_TRUST": "1",
                    **({"PGUSER": "zen"} if account == "postgres" else {}),
                }  # fmt: skip
                done = subprocess.run(
                    ["runuser", "-u", account, "--", "sh", "-e"], input=text, text=True,
                    cwd=folder, env=environment, capture_output=True, check=False,
                )  # fmt: skip
                assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
                return done.stdout

            text = follow(first, "postgres", str(server.folder))
            assert f"{made['alice']}, {made['bob']} can write" in text
            shown = {}
            for name, account in made.items():
                home = Path("/home") / account
                (home / "matmul.sh").write_text(STUDY)
                shutil.chown(home / "matmul.sh", account)
                shown[name] = follow(each, account, str(home))
            assert "3 run in" in shown["alice"]
            assert "3 cached" in shown["bob"]  # what alice measured
            assert f"{made['alice']}/matmul" in shown["bob"]
            again = follow(["export ZENTURIO_DB=postgresql:///lab", "zen list"], made["alice"],
                           f"/home/{made['alice']}")  # fmt: skip
            assert f"{made['bob']}/matmul" in again
    finally:
        server.remove()
