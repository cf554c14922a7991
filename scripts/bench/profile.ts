import { z } from "zod";

/** A profile as `node --cpu-prof` writes it (Chrome DevTools Protocol, Profiler.Profile). */
export const cpuProfile = z.object({
  nodes: z.array(z.object({ id: z.number(), callFrame: z.object({ functionName: z.string(), url: z.string() }) })),
  startTime: z.number(),
  samples: z.array(z.number()),
  timeDeltas: z.array(z.number()),
});

type CpuProfile = z.infer<typeof cpuProfile>;

/**
 * Milliseconds that the main thread spent in each package, ours, Node and the collector; the longest first.
 * @param span what to look at, in microseconds of the system's monotonic clock, as the profile has them
 */
export function selfTimeByOrigin(
  { nodes, startTime, samples, timeDeltas }: CpuProfile,
  span: { from: number; to: number },
): Map<string, number> {
  const originOf = new Map(nodes.map(({ id, callFrame }) => [id, origin(callFrame)]));
  const times = new Map<string, number>();
  let clock = startTime;
  samples.forEach((id, index) => {
    const duration = timeDeltas[index] ?? 0;
    clock += duration;
    const name = originOf.get(id);
    if (name && clock >= span.from && clock <= span.to) times.set(name, (times.get(name) ?? 0) + duration / 1_000);
  });
  return new Map([...times].sort(([, a], [, b]) => b - a));
}

function origin({ functionName, url }: CpuProfile["nodes"][number]["callFrame"]): string | undefined {
  if (functionName === "(idle)" || functionName === "(root)") return undefined;
  if (functionName === "(garbage collector)") return "garbage collector";
  const [, packageName] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? [];
  if (packageName) return packageName;
  return url.startsWith("file:") ? "identity server" : "Node";
}
