import { z } from "zod";
import { type ProblemBody, type ProblemCode, problems } from "./problem.ts";

/** A problem as described in the API's documents. The schema is not in problem.ts, because browsers load that file. */
export const problemSchema = z.object({
  /** The code's address in the documents. Satellites send a URN. */
  type: z.string().regex(/^(\/docs\/errors#[A-Z_]+|urn:gatehouse:problem:[a-z-]+)$/),
  title: z.string(),
  status: z.number().int(),
  detail: z.string(),
  code: z.enum(Object.keys(problems) as [ProblemCode, ...ProblemCode[]]),
  requestId: z.string(),
  /** The field, header or parameter at fault. */
  param: z.string().optional(),
  /** Why the admin API refused a change, as a word for programs. */
  refusal: z.string().optional(),
  /** True if the stored session can't be used any more, so the user must sign in again. */
  requiresReauth: z.literal(true).optional(),
  /** Remaining attempts to enter a code. */
  attemptsLeft: z.number().int().optional(),
}) satisfies z.ZodType<ProblemBody>;
