import { z } from "zod";
import { type ProblemBody, type ProblemCode, problems } from "./problem.ts";

/** A problem as the API's documents describe it. It stands apart from problem.ts, which browsers load. */
export const problemSchema = z.object({
  type: z.string().regex(/^urn:gatehouse:problem:[a-z-]+$/),
  title: z.string(),
  status: z.number().int(),
  detail: z.string(),
  code: z.enum(Object.keys(problems) as [ProblemCode, ...ProblemCode[]]),
  requestId: z.string(),
  /** Which field, header or parameter is at fault. */
  param: z.string().optional(),
  /** The stored session is no use any more: sign in again. */
  requiresReauth: z.literal(true).optional(),
  /** Guesses of a code that are left. */
  attemptsLeft: z.number().int().optional(),
}) satisfies z.ZodType<ProblemBody>;
