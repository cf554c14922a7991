import { z } from "zod";
import { isReadable } from "../http/readable.ts";
import { maxPasskeyNameBytes } from "./limits.ts";

/** What a credential id or a part of a ceremony's answer looks like in JSON (WebAuthn level 3, section 5.1). */
const base64url = z.string().regex(/^[A-Za-z0-9_-]+$/);
/** Authenticators make ids of at most 1023 bytes (WebAuthn level 3, section 4, credential id). */
const maxCredentialIdLength = Math.ceil((1023 * 4) / 3);
const credentialId = base64url.max(maxCredentialIdLength);

const credential = {
  id: credentialId,
  rawId: credentialId,
  type: z.literal("public-key"),
  authenticatorAttachment: z.enum(["platform", "cross-platform"]).optional().catch(undefined),
  // None is asked for, so none is passed on.
  clientExtensionResults: z.unknown().transform(() => ({})),
};

const captchaToken = z.string().min(1).max(4_096).optional();

/** For a challenge to sign in with. */
export const startSignInSchema = z.object({ captchaToken });

/** A browser's answer to a sign-in's challenge. */
export const finishSignInSchema = z.object({
  challengeId: z.uuid(),
  credential: z.object({
    ...credential,
    response: z.object({
      authenticatorData: base64url,
      clientDataJSON: base64url,
      signature: base64url,
      userHandle: base64url.optional(),
    }),
  }),
  /** Sanitised where it is used. */
  returnUrl: z.string().optional(),
});

/** For a challenge to make a passkey with; the page says whose it is. */
export const startRegistrationSchema = z.object({ pageAccount: z.string().optional() });

const transport = z.enum(["ble", "cable", "hybrid", "internal", "nfc", "smart-card", "usb"]);

/** A browser's answer to a registration's challenge. */
export const finishRegistrationSchema = z.object({
  challengeId: z.uuid(),
  credential: z.object({
    ...credential,
    response: z.object({
      attestationObject: base64url,
      clientDataJSON: base64url,
      // A hint for browsers; one of tomorrow's is left out.
      transports: z.array(transport).max(10).optional().catch(undefined),
    }),
  }),
});

/** A passkey's new name. */
export const renameSchema = z.object({
  name: z
    .string({ error: "Give the passkey a name" })
    .trim()
    .min(1, "Give the passkey a name")
    .refine(isReadable, "Enter a name without invisible characters")
    .refine((name) => new TextEncoder().encode(name).length <= maxPasskeyNameBytes, {
      message: `Choose a name of at most ${maxPasskeyNameBytes} bytes`,
    }),
});
