import { z } from "zod";
import { account } from "./device-view.ts";

/** What calls about a browser's accounts take and answer. */
export const accountList = z.object({
  activeAccountId: z.uuid().nullable(),
  /** The one that was active last first. */
  accounts: z.array(account).readonly(),
});
export type AccountList = z.output<typeof accountList>;

export const switchRequest = z.strictObject({
  accountId: z.uuid(),
  targetRoute: z.string().optional(),
  currentRoute: z.string().optional(),
});
export const switched = z.object({ accountId: z.uuid(), redirectTo: z.string() });
export type Switched = z.output<typeof switched>;

export const currentRouteRequest = z.strictObject({ route: z.string() });

export const signedOut = z.object({ activeAccountId: z.uuid().nullable(), redirectTo: z.string() });
export type SignedOutAnswer = z.output<typeof signedOut>;
