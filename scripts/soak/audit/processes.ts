import type { Span } from "../faults/spans.ts";
import { recoveryMs } from "../faults/spans.ts";
import type { ProcessId } from "../samples.ts";
import { type Verdict, verdict } from "./verdict.ts";

/** Checks that each restart of a service followed a fault that had killed its process. */
export function judgeProcesses(pids: readonly ProcessId[], spans: readonly Span[]): Verdict {
  const failures: string[] = [];
  let restarts = 0;
  const byService = Map.groupBy(pids, ({ service }) => service);
  for (const [service, seen] of byService) {
    for (const [index, { at, pid }] of seen.entries()) {
      const before = seen[index - 1];
      if (!before || before.pid === pid) continue;
      restarts += 1;
      const ended = spans.some(
        ({ kind, from, until }) =>
          kind.startsWith(`${service} SIG`) &&
          from <= at &&
          (until ?? Number.POSITIVE_INFINITY) + recoveryMs >= before.at,
      );
      if (!ended)
        failures.push(
          `${service} was another process at ${new Date(at).toISOString()}, but the soak test did not end it`,
        );
    }
  }
  return verdict("no service died by itself", {
    figures: `${byService.size} services, ${restarts} restarts`,
    failures,
  });
}
