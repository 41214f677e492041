"""A table of what came out, and a number for each claim."""

import json
from pathlib import Path

WAYS = ("undisturbed", "followed", "staying", "migrating", "better")
real = {way: json.loads(Path(f"{way}.json").read_text()) for way in WAYS}
simulated = {way: json.loads(Path(f"simulated-{way}.json").read_text()) for way in WAYS}
seconds = {way: each["makespan"] for way, each in real.items()}
played = {way: each["makespan"] for way, each in simulated.items()}
killed = {way: each["runs"].get("cancelled", 0) for way, each in real.items()}

print(
    "| | seconds | simulated | tasks killed | seconds of processors lost |\n|---|--:|--:|--:|--:|"
)
for way in WAYS:
    lost = real[way]["wasted"]
    print(f"| {way} | {seconds[way]:.1f} | {played[way]:.1f} | {killed[way]} | {lost:.1f} |")

measured = {
    "real_halved": seconds["followed"] / seconds["migrating"],
    "real_halved_staying": seconds["staying"] / seconds["migrating"],
    "real_final": seconds["migrating"] / seconds["undisturbed"],
    "real_better": seconds["better"] / seconds["migrating"],
    "real_killed": killed["migrating"],
    "real_simulated": max(seconds[way] / played[way] for way in WAYS),
}
whole = Path("../measured.json")
known = json.loads(whole.read_text()) if whole.exists() else {}
whole.write_text(json.dumps(known | measured))
