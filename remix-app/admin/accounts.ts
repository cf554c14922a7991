import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { deviceName } from "../activity/device-name.ts";
import { buildPage, parseCursor, readCursor, writeCursor } from "../http/list-page.ts";
import { consoleRoleSchema } from "../session/console-role.ts";
import { callFunction } from "../supabase/data-api.ts";
import type { Confirmation } from "./confirmation.ts";

/** The states of an {@link AccountPolicy}. */
const policyState = z.enum(["optional", "required", "recovery_in_progress", "malformed"]);
export type PolicyState = z.infer<typeof policyState>;

export const foundSchema = z.array(
  z.object({
    id: z.uuid(),
    email: z.string().nullable(),
    displayName: z.string().nullable(),
    /** A single sign-on account may share its email with another account. */
    singleSignOn: z.boolean(),
    consoleRole: consoleRoleSchema,
    policy: policyState,
    banned: z.boolean(),
    confirmed: z.boolean(),
    deleted: z.boolean(),
    authenticators: z.number(),
    lastSignInAt: z.string().nullable(),
    createdAt: z.string(),
  }),
);
export type FoundAccount = z.infer<typeof foundSchema>[number];

export const accountSchema = z.object({
  id: z.uuid(),
  email: z.string().nullable(),
  displayName: z.string().nullable(),
  singleSignOn: z.boolean(),
  createdAt: z.string(),
  confirmedAt: z.string().nullable(),
  lastSignInAt: z.string().nullable(),
  bannedUntil: z.string().nullable(),
  /** The scheduled deletion. `blockers` are the workspaces that prevented it. */
  deletion: z
    .object({ dueAt: z.string(), reason: z.string(), blockers: z.array(z.object({ name: z.string() })) })
    .nullable(),
  consoleRole: consoleRoleSchema,
  methods: z.object({
    password: z.boolean(),
    passkeys: z.number(),
    identities: z.array(z.object({ id: z.uuid(), provider: z.string(), email: z.string().nullable() })),
  }),
  factors: z.array(
    z.object({
      id: z.uuid(),
      name: z.string().nullable(),
      type: z.string(),
      verified: z.boolean(),
      createdAt: z.string(),
      lastUsedAt: z.string().nullable(),
    }),
  ),
  sessions: z.array(
    z
      .object({
        id: z.uuid(),
        createdAt: z.string(),
        lastSeenAt: z.string(),
        ip: z.string().nullable(),
        device: z.string().nullable(),
        userAgent: z.string().nullable(),
        method: z.string().nullable(),
        aal: z.string().nullable(),
      })
      .transform(({ device, userAgent, ...session }) => ({
        ...session,
        device: device ?? deviceName(userAgent ?? ""),
      })),
  ),
  /** Counts all sessions, up to 1,001; `sessions` holds the 50 most recently seen. */
  sessionCount: z.number().int(),
  /** Everything else that acts for the account, newest first. */
  others: z.array(
    z.object({
      key: z.string(),
      kind: z.enum(["recovery_codes", "recovery_mail", "phone_approval", "app", "device", "agent"]),
      name: z.string().nullable(),
      addedAt: z.string(),
      lastUsedAt: z.string().nullable(),
      device: z.string().nullable(),
      address: z.string().nullable(),
    }),
  ),
});
export type Account = z.infer<typeof accountSchema>;

export const timelineSchema = z.array(
  z.object({
    id: z.uuid(),
    /** `event`: from the owner's own log. `audit`: an admin's action. */
    source: z.enum(["event", "audit"]),
    kind: z.string(),
    method: z.string().nullable(),
    device: z.string().nullable(),
    ip: z.string().nullable(),
    reason: z.string().nullable(),
    actorEmail: z.string().nullable(),
    /** The request id of an action in the admin console; null for every other entry. */
    requestId: z.string().nullable(),
    createdAt: z.string(),
  }),
);
export type TimelineEntry = z.infer<typeof timelineSchema>[number];

const accountsPerPage = 50;

/**
 * Finds accounts by id or full email; if no account matches, by part of an email or name. Without a term, returns a page
 * of all accounts, newest first, including deleted ones.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function readAccounts(
  context: AppLoadContext,
  { term, cursor, limit = accountsPerPage }: { term: string; cursor: string | null; limit?: number },
): Promise<{ accounts: FoundAccount[]; more: boolean; nextCursor: string | null }> {
  const before = parseCursor(cursor, { read: readCursor, requestId: context.requestId });
  const isSearch = term !== "";
  const page_size = limit + 1;
  const found = await callFunction(context, {
    ...(isSearch
      ? { name: "private.search_accounts", args: { term, page_size } }
      : { name: "private.list_accounts", args: { before, page_size } }),
    schema: foundSchema,
  });
  const { records: accounts, nextCursor } = buildPage(found, { limit, cursorOf: writeCursor });
  return { accounts, more: isSearch && nextCursor !== null, nextCursor: isSearch ? null : nextCursor };
}

/** Returns what an admin types before a change that locks an account out: its email, or its ID if it has none. */
export function confirmAccount({ id, email }: Pick<Account, "id" | "email">): Confirmation {
  return email === null ? { text: id, what: "the account’s ID" } : { text: email, what: "the account’s email" };
}
