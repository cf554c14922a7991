import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { buildPage, parseCursor, readKeyCursor, writeKeyCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";

const credential = z.object({
  id: z.uuid(),
  kind: z.enum(["secret", "key"]),
  kid: z.string().nullable(),
  algorithm: z.string().nullable(),
  createdAt: z.string(),
  /** Who added it; null for the operator, or once that account is deleted. */
  createdBy: z.string().nullable(),
  expiresAt: z.string().nullable(),
  lastUsedAt: z.string().nullable(),
});
export type ServiceAccountCredential = z.output<typeof credential>;

export const serviceAccountSchema = z.object({
  id: z.uuid(),
  clientId: z.string(),
  name: z.string(),
  scopes: z.array(z.string()),
  allowedAddresses: z.array(z.string()),
  enabled: z.boolean(),
  state: z.enum(["active", "disabled", "expired", "revoked"]),
  createdAt: z.string(),
  /** The email of the person who is responsible for the service account; null once that account is deleted. */
  createdBy: z.string().nullable(),
  expiresAt: z.string(),
  lastUsedAt: z.string().nullable(),
  lastUsedIp: z.string().nullable(),
  /** The credentials that work, newest first. */
  credentials: z.array(credential),
  /** Identifies the last change. An edit must send it. */
  version: z.string(),
});
export type ServiceAccount = z.output<typeof serviceAccountSchema>;

const accountsPerPage = 50;
const accountId = z.uuid();

type Context = Pick<AppLoadContext, "env" | "requestId">;

/** Returns the position that a cursor of {@link listServiceAccounts} holds, or null for an invalid cursor. */
export function readAccountCursor(cursor: string): string[] | null {
  const position = readKeyCursor(cursor, { length: 2 });
  return accountId.safeParse(position?.[1]).success ? position : null;
}

/**
 * Returns a page of the service accounts of a workspace or, for null, of the platform, by name.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function listServiceAccounts(
  context: Context,
  { workspaceId, cursor }: { workspaceId: string | null; cursor: string | null },
): Promise<{ accounts: ServiceAccount[]; nextCursor: string | null }> {
  const args = {
    workspace: workspaceId,
    after: parseCursor(cursor, { read: readAccountCursor, requestId: context.requestId }),
    page_size: accountsPerPage + 1,
  };
  const found = await callFunction(context, {
    name: "private.list_service_accounts",
    args,
    schema: z.array(serviceAccountSchema),
  });
  const { records, nextCursor } = buildPage(found, {
    limit: accountsPerPage,
    cursorOf: ({ name, id }) => writeKeyCursor([name, id]),
  });
  return { accounts: records, nextCursor };
}

/** How many service accounts a log looks up to name those that acted. */
const maxNamedAccounts = 200;

/** Returns the names of a workspace's service accounts by id, also of those that are revoked. */
export async function listServiceAccountNames(
  context: Context,
  workspaceId: string,
): Promise<ReadonlyMap<string, string>> {
  const args = { workspace: workspaceId, after: null, page_size: maxNamedAccounts };
  const schema = z.array(serviceAccountSchema.pick({ id: true, name: true }));
  const found = await callFunction(context, { name: "private.list_service_accounts", args, schema });
  return new Map(found.map(({ id, name }) => [id, name]));
}

/** @throws Response 404 NOT_FOUND for a service account that the owner doesn't have, 503 UNAVAILABLE */
export async function requireServiceAccount(
  context: Context,
  { workspaceId, id }: { workspaceId: string | null; id: string | undefined },
): Promise<ServiceAccount> {
  const account = accountId.safeParse(id).success
    ? await callFunction(context, {
        name: "private.read_service_account",
        args: { workspace: workspaceId, account_id: id },
        schema: serviceAccountSchema.nullable(),
      })
    : null;
  if (account) return account;
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This service account doesn’t exist." });
}
