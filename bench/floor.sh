#!/bin/sh
# The floor: what plain git costs for one task, and nothing else. No state, no supervision, no sync to disk.
# usage: floor.sh REPO merge|keep TASK
set -eu
repo=$1 mode=$2 task=$3
lane=$repo.lanes/$task

# Worktree commands that run side by side trip over each other's half-written files and locks, and do not wait for
# them; a driver has to try again.
again() {
	for _ in 1 2 3 4 5 6 7 8 9; do
		"$@" 2>"$repo.$task.err" && return
		echo "floor: again: $* ($(tail -n 1 "$repo.$task.err"))" >&2
		sleep 0.05
	done
	echo "floor: gave up: $*" >&2
	exit 1 # xargs would stop at git's own 255
}

add_worktree() {
	git worktree add --quiet --no-track -B "bench/$task" "$lane" main || {
		rm -rf "$lane"
		return 1
	}
}

remove_worktree() {
	[ ! -e "$lane" ] || git worktree remove "$lane"
}

cd "$repo"
again add_worktree
cd "$lane"
sh <"${repo%/*}/prompts/$task"
git add --all
git commit --quiet --message "$task"
cd "$repo"
if [ "$mode" = merge ]; then
	again flock "$repo.lock" git merge --quiet --no-ff --no-edit "bench/$task"
fi
again remove_worktree
if [ "$mode" = merge ]; then
	again flock "$repo.lock" git branch --quiet -D "bench/$task"
fi
