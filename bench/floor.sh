#!/bin/sh
# The floor: what plain git costs for one task, and nothing else. No state, no supervision, no sync to disk.
# usage: floor.sh REPO merge|keep TASK
set -eu
repo=$1 mode=$2 task=$3
lane=$repo.lanes/$task

# Git's own commands take locks that they do not wait for; a driver has to try again.
again() {
	for _ in 1 2 3 4 5 6 7 8 9; do
		"$@" 2>"$repo.$task.err" && return
		echo "floor: again: $*" >&2
		sleep 0.05
	done
	cat "$repo.$task.err" >&2
	"$@"
}

cd "$repo"
again git worktree add --quiet --no-track -b "bench/$task" "$lane" main
cd "$lane"
sh <"${repo%/*}/prompts/$task"
git add --all
git commit --quiet --message "$task"
cd "$repo"
if [ "$mode" = merge ]; then
	flock "$repo.lock" git merge --quiet --no-ff --no-edit "bench/$task"
fi
again git worktree remove "$lane"
if [ "$mode" = merge ]; then
	flock "$repo.lock" git branch --quiet -D "bench/$task"
fi
