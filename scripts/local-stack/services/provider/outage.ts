import { z } from "zod";
import type { Behaviour } from "./behaviours.ts";

/** How every call departs from its answer while the provider has an outage: refused, or broken off in the middle. */
export const outageSchema = z.union([
  z.strictObject({ failure: z.union([z.literal([429, 500, 503]), z.enum(["reset", "hang"])]) }),
  z.strictObject({ midway: z.enum(["cut", "stall", "garbage", "error"]) }),
]);

/** The outage that the provider has at the moment, if any. */
export type Outage = {
  begin: (how: z.infer<typeof outageSchema>) => void;
  end: () => void;
  /** The behaviour as the outage lets it be. */
  over: (behaviour: Behaviour) => Behaviour;
};

/** A provider that is well, until an outage begins. */
export function createOutage(): Outage {
  let now: z.infer<typeof outageSchema> | undefined;
  return {
    begin(how) {
      now = how;
    },
    end() {
      now = undefined;
    },
    over: (behaviour) => ({ ...behaviour, ...now }),
  };
}
