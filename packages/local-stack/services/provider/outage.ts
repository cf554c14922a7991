import { z } from "zod";
import type { Behaviour } from "./behaviours.ts";

/** How every call fails during an outage: with an error, or in the middle of its answer. */
export const outageSchema = z.union([
  z.strictObject({ failure: z.union([z.literal([429, 500, 503]), z.enum(["reset", "hang"])]) }),
  z.strictObject({ midway: z.enum(["cut", "stall", "garbage", "error"]) }),
]);

/** The provider's current outage, if any. */
export type Outage = {
  begin: (how: z.infer<typeof outageSchema>) => void;
  end: () => void;
  /** Returns the behaviour as changed by the outage, or by a context window that is full for the first time. */
  over: (behaviour: Behaviour) => Behaviour;
};

/** Creates a provider's outage state, initially without an outage. */
export function createOutage(): Outage {
  let now: z.infer<typeof outageSchema> | undefined;
  const filled = new Set<number>();
  return {
    begin(how) {
      now = how;
    },
    end() {
      now = undefined;
    },
    over(behaviour) {
      const { full } = behaviour;
      const isFull = full !== undefined && !filled.has(full);
      if (isFull) filled.add(full);
      return { ...behaviour, ...(isFull ? { failure: "full" } : {}), ...now };
    },
  };
}
