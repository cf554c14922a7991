import { z } from "zod";

/** The query of `GET /v1/envelopes/{id}`: for how many seconds the answer waits for a change. */
export const envelopeQuery = z.object({ wait: z.coerce.number().int().min(0).max(60).default(0) });
