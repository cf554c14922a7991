import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { isReadable } from "../http/readable.ts";

const line = z.string().refine(isReadable);

/** What a phone says of itself when it answers. */
export const approvingDevice = z.object({
  name: line.trim().min(1).max(100),
  platform: z.enum(["ios", "android"]),
  appLock: z.boolean().optional(),
  localAuthentication: line.max(32).nullish(),
});

const localAuthentications: readonly unknown[] = ["biometric", "passcode"];

/**
 * A phone approves only behind its app lock, and after it has asked for a fingerprint, a face or the passcode
 * (docs/mobile.md). It is the app's own word: what makes it worth something is that the session is the app's.
 * @throws Response 403 FORBIDDEN
 */
export function requireLocalAuthentication(
  { requestId }: Pick<AppLoadContext, "requestId">,
  { appLock, localAuthentication }: z.infer<typeof approvingDevice>,
): void {
  if (appLock !== true) {
    throw problem("FORBIDDEN", { requestId, detail: "Turn on the app lock, then approve again." });
  }
  if (localAuthentications.includes(localAuthentication)) return;
  const detail = "Confirm with your fingerprint, face or passcode on the phone, then approve again.";
  throw problem("FORBIDDEN", { requestId, detail });
}
