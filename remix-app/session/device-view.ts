import { z } from "zod";
import { utcText } from "#shared/utc-time.ts";

/** An account of a browser, as its list shows it. */
export const account = z.object({
  id: z.uuid(),
  email: z.string().nullable(),
  displayName: z.string().nullable(),
  avatarUrl: z.string().nullable(),
  active: z.boolean(),
  requiresReauth: z.boolean(),
  lastRoute: z.string().nullable(),
  lastActiveAt: utcText,
  addedAt: utcText,
});

export type Account = z.infer<typeof account>;

/** What the database says of a browser's device, by `private.device_state`. */
export const deviceView = z.object({
  /** `previous`: the browser has yet to get the secret that is in its place. */
  secret: z.enum(["current", "previous"]),
  /** Whether the browser has shown its newest secret before. */
  arrived: z.boolean(),
  /** Whether the secret is so old that the browser is reminded to keep it. */
  old: z.boolean(),
  /** Who is active in it, with a session that lives; null where nobody is. */
  active: z.object({ userId: z.uuid(), sessionId: z.uuid(), tag: z.string() }).nullable(),
  accounts: z.array(account),
});

export type DeviceView = z.infer<typeof deviceView>;
