import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { AuthError, SupabaseClient } from "@supabase/supabase-js";
import type { Provider, SourceUser } from "./source-user.ts";

/** The part of Supabase Auth's admin API that the import uses. */
export type UserBackend = Pick<SupabaseClient["auth"]["admin"], "createUser" | "getUserById">;

export type ImportOutcome =
  | { outcome: "created" | "present"; userId: string; otherEmail?: boolean }
  | { outcome: "not_taken"; reason: "email_taken" | "id_taken" | "refused" | "failed"; detail?: string };

/** The backend refused the key, or stayed unavailable: no later user would fare better. */
export class BackendError extends Error {
  override name = "BackendError";
}

const attempts = 6;
const firstWaitMs = 500;
/** A hundred years: Supabase Auth has no ban without an end. */
const disabledFor = "876000h";

type Options = { provider: Provider; wait?: (ms: number) => Promise<unknown> };

/**
 * Creates an account for a user. The account's id is derived from the user's, so that a user cannot be created twice,
 * even if an answer was lost. An existing account is never changed.
 * @throws BackendError
 */
export async function importUser(
  backend: UserBackend,
  user: SourceUser,
  { provider, wait = sleep }: Options,
): Promise<ImportOutcome> {
  const id = accountIdOf(provider, user.sourceId);
  let failure: AuthError | undefined;
  let isBackendAlive = true;
  for (let attempt = 1; attempt <= attempts; attempt++) {
    if (attempt > 1) await wait(firstWaitMs * 2 ** (attempt - 2));
    const { error } = await backend.createUser(attributesOf(user, { id, provider }));
    if (!error) return { outcome: "created", userId: id };
    requireAcceptedKey(error);
    const isTaken = error.code === "email_exists";
    if (!isTaken && !isTransient(error)) return { outcome: "not_taken", reason: "refused", detail: codeOf(error) };
    // A failed call may have created the account, and an id in use fails with status 500.
    const existing = await backend.getUserById(id);
    if (existing.data.user) return describeExisting(existing.data.user, { provider, user });
    isBackendAlive = existing.error?.status === 404;
    if (isTaken && isBackendAlive) return { outcome: "not_taken", reason: "email_taken" };
    failure = isBackendAlive || !existing.error ? error : existing.error;
  }
  const detail = failure ? codeOf(failure) : "";
  if (isBackendAlive && failure?.status !== 429) return { outcome: "not_taken", reason: "failed", detail };
  throw new BackendError(`The project stayed unavailable (${detail}). Run the command again to continue.`);
}

type Attributes = Parameters<UserBackend["createUser"]>[0];

function attributesOf(user: SourceUser, { id, provider }: { id: string; provider: Provider }): Attributes {
  const { name, picture } = user;
  return {
    id,
    email: user.email,
    email_confirm: user.emailVerified,
    // Without a hash, the backend sets a random password.
    ...("hash" in user.password ? { password_hash: user.password.hash } : {}),
    user_metadata: {
      ...(name === undefined ? {} : { full_name: name }),
      ...(picture === undefined ? {} : { avatar_url: picture }),
    },
    app_metadata: { imported_from: { provider, id: user.sourceId } },
    ...(user.disabled ? { ban_duration: disabledFor } : {}),
  };
}

type Account = { email?: string | undefined; app_metadata: Record<string, unknown> };

function describeExisting(
  account: Account & { id: string },
  { provider, user }: { provider: Provider; user: SourceUser },
): ImportOutcome {
  const origin = account.app_metadata.imported_from as { provider?: unknown; id?: unknown } | undefined;
  if (origin?.provider !== provider || origin.id !== user.sourceId) return { outcome: "not_taken", reason: "id_taken" };
  const otherEmail = account.email?.toLowerCase() !== user.email.toLowerCase();
  return { outcome: "present", userId: account.id, ...(otherEmail ? { otherEmail } : {}) };
}

/** Returns the id of a user's account: a UUID of version 8 (RFC 9562, 5.8). */
function accountIdOf(provider: Provider, sourceId: string): string {
  const bytes = createHash("sha256").update(`gatehouse import ${provider} ${sourceId}`).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function isTransient({ status }: AuthError): boolean {
  return status === undefined || status === 0 || status === 408 || status === 429 || status >= 500;
}

function requireAcceptedKey({ status }: AuthError): void {
  if (status !== 401 && status !== 403) return;
  throw new BackendError("The project refused SUPABASE_SECRET_KEY. Check that it belongs to SUPABASE_URL.");
}

/** Never the message, which can repeat what was sent. */
function codeOf({ status, code }: AuthError): string {
  return [status || "no answer", code].filter(Boolean).join(" ");
}
