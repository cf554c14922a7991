import type { Step } from "./service.ts";

/**
 * Runs every step as soon as its dependencies are done, concurrently where possible. Dependencies that are not among
 * the steps count as done. The first failure rejects, and no further step is started.
 * @throws Error if steps depend on each other in a cycle
 */
export async function runInOrder(steps: readonly Step[], start: (step: Step) => Promise<void>): Promise<void> {
  const byName = new Map(steps.map((step) => [step.name, step]));
  const runningSteps = new Map<string, Promise<void>>();
  let failed = false;

  function begin(step: Step, path: readonly string[]): Promise<void> {
    if (path.includes(step.name)) throw new Error(`Steps wait for each other: ${[...path, step.name].join(" → ")}`);
    const memo = runningSteps.get(step.name);
    if (memo) return memo;
    const needed = step.dependsOn
      .map((name) => byName.get(name))
      .filter((other) => other !== undefined)
      .map((other) => begin(other, [...path, step.name]));
    const running = Promise.all(needed).then(async () => {
      if (failed) return;
      try {
        await start(step);
      } catch (error) {
        failed = true;
        throw error;
      }
    });
    runningSteps.set(step.name, running);
    return running;
  }

  await Promise.all(steps.map((step) => begin(step, [])));
}

/** Returns the rounds in which services can be stopped: dependants before their dependencies. */
export function stopRounds(steps: readonly Step[]): string[][] {
  const byName = new Map(steps.map((step) => [step.name, step]));
  const depths = new Map<string, number>();
  function depthOf(name: string): number {
    const memo = depths.get(name);
    if (memo !== undefined) return memo;
    const needed = byName.get(name)?.dependsOn.filter((other) => byName.has(other)) ?? [];
    const depth = needed.length === 0 ? 0 : 1 + Math.max(...needed.map(depthOf));
    depths.set(name, depth);
    return depth;
  }
  const rounds: string[][] = [];
  for (const step of steps) {
    if (step.kind !== "service") continue;
    const depth = depthOf(step.name);
    rounds[depth] = [...(rounds[depth] ?? []), step.name];
  }
  return rounds.filter((round) => round !== undefined).reverse();
}
