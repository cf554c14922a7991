import { z } from "zod";

/** The code of an authenticator app as typed or pasted: apps show it as "123 456". */
const codeSchema = z
  .string({ error: "Enter the code from your app." })
  .transform((text) => text.replace(/[\s-]/g, ""))
  .pipe(z.string().regex(/^\d{6}$/, "Enter the 6 digits from your app."));

/**
 * The identity backend accepts an id in either case. Lower case ensures that a used code is recognized however the id
 * was sent.
 */
export const factorIdSchema = z.uuid({ error: "Choose an authenticator app." }).toLowerCase();

export const challengeSchema = z.object({ factorId: factorIdSchema, code: codeSchema });

/** The name by which an owner recognizes an authenticator. */
const nameSchema = z
  .string()
  .trim()
  .max(60, "Choose a name of at most 60 characters.")
  .optional()
  .transform((name) => name || undefined);

export const startEnrollmentSchema = z.object({ name: nameSchema });

/** Carries a started enrollment from page to page, because the backend shows a secret only once. */
export const verifyEnrollmentSchema = z.object({
  factorId: factorIdSchema,
  secret: z.string().regex(/^[A-Z2-7]{16,128}$/),
  name: z.string().max(120),
  code: codeSchema,
});
