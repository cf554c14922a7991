import { z } from "zod";

/** bcrypt reads no further, so the identity backend takes no longer one. */
const maxPasswordBytes = 72;
const minPasswordLength = 8;

/**
 * As the identity backend and browsers have it (HTML, 4.10.5.1.5), but with a dot in the domain: whoever has an account
 * can type its address, with an `&` or a `#` in it too.
 */
const emailPattern =
  /^[a-z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+$/i;

/** An email address as typed; RFC 5321 allows 254 characters. */
export const emailSchema = z
  .string({ error: "Enter your email address" })
  .trim()
  .max(254, "Enter an email address of at most 254 characters")
  .pipe(z.email({ pattern: emailPattern, error: "Enter an email address, such as name@example.com" }));

const typedPassword = z.string({ error: "Enter your password" });

/** Where a form leads once it has succeeded; sanitised where it is used. */
const returnUrl = z.string().optional();

export const signInSchema = z.object({ email: emailSchema, password: typedPassword, returnUrl });

export const newPasswordSchema = z
  .string({ error: "Choose a password" })
  .min(minPasswordLength, `Choose a password of at least ${minPasswordLength} characters`)
  .refine((password) => new TextEncoder().encode(password).length <= maxPasswordBytes, {
    message: `Choose a password of at most ${maxPasswordBytes} bytes`,
  });

export const signUpSchema = z.object({ email: emailSchema, password: newPasswordSchema, returnUrl });

/** For what sends a mail to an address. */
export const mailSchema = z.object({ email: emailSchema, returnUrl });

export const resetPasswordSchema = z.object({ password: newPasswordSchema });
