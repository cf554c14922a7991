import { z } from "zod";
import { isReadable } from "../http/readable.ts";
import { maxPasskeyNameBytes } from "./limits.ts";

/** The JSON form of a credential id or of a part of a ceremony's answer (WebAuthn level 3, section 5.1). */
const base64url = z.string().regex(/^[A-Za-z0-9_-]+$/);
/** Authenticators create ids of at most 1023 bytes (WebAuthn level 3, section 4, credential id). */
const maxCredentialIdLength = Math.ceil((1023 * 4) / 3);
const credentialId = base64url.max(maxCredentialIdLength);

const credentialFields = {
  id: credentialId,
  rawId: credentialId,
  type: z.literal("public-key"),
  authenticatorAttachment: z.enum(["platform", "cross-platform"]).optional().catch(undefined),
  // We request no extensions, so we pass on no results.
  clientExtensionResults: z.unknown().transform(() => ({})),
};

const captchaToken = z.string().min(1).max(4_096).optional();

/** The body of a request for a sign-in challenge. */
export const startSignInSchema = z.object({ captchaToken });

/** A browser's answer to a sign-in's challenge. */
export const finishSignInSchema = z.object({
  challengeId: z.uuid(),
  credential: z.object({
    ...credentialFields,
    response: z.object({
      authenticatorData: base64url,
      clientDataJSON: base64url,
      signature: base64url,
      userHandle: base64url.optional(),
    }),
  }),
  /** Sanitized where it is used. */
  returnUrl: z.string().optional(),
});

/** The body of a request for a challenge to create a passkey. The page states which account it belongs to. */
export const startRegistrationSchema = z.object({ pageAccount: z.string().optional() });

const transport = z.enum(["ble", "cable", "hybrid", "internal", "nfc", "smart-card", "usb"]);

/** A browser's answer to a registration's challenge. */
export const finishRegistrationSchema = z.object({
  challengeId: z.uuid(),
  credential: z.object({
    ...credentialFields,
    response: z.object({
      attestationObject: base64url,
      clientDataJSON: base64url,
      // Only a hint for browsers, so unknown values are dropped.
      transports: z.array(transport).max(10).optional().catch(undefined),
    }),
  }),
});

export const renameSchema = z.object({
  name: z
    .string({ error: "Give the passkey a name" })
    .trim()
    .min(1, "Give the passkey a name")
    .refine(isReadable, "Enter a name without invisible characters.")
    .refine((name) => new TextEncoder().encode(name).length <= maxPasskeyNameBytes, {
      message: `Choose a name of at most ${maxPasskeyNameBytes} bytes.`,
    }),
});
