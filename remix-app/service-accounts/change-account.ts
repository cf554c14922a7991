import type { AppLoadContext } from "@remix-run/node";
import { applyConsoleChange, type ConsoleRefusal } from "../admin/console-change.ts";
import { hashToBytea, newOpaqueToken } from "../apps/opaque-tokens.ts";
import { parsePublicKey } from "../machines/assertion-key.ts";
import type { AccountChange, NewAccount } from "./account-form.ts";
import type { ServiceAccountManager } from "./owner.ts";
import type { ServiceAccount } from "./service-accounts.ts";

/**
 * The result of a change: the id of a service account that it created, and the secret that it created, which is
 * returned here and never again.
 */
export type AccountChangeOutcome =
  | { outcome: "changed"; id: string | null; secret: string | null }
  | ConsoleRefusal
  | { outcome: "refused"; status: 400; message: string; field: "publicKey" };

type Refusals = Parameters<typeof applyConsoleChange>[1]["refusals"];

const refusals: Refusals = {
  not_found: { status: 404, message: "This service account or credential doesn’t exist any more." },
  taken: { status: 409, message: "This name or key is already in use. Nothing was changed." },
  invalid: { status: 400, message: "The database refused this. Check the scopes, the addresses and the expiry." },
  too_many: {
    status: 409,
    message: "There are 100 service accounts, or five credentials of this one. Remove some first. Nothing was changed.",
  },
};

const workspaceRefusals: Refusals = {
  ...refusals,
  forbidden: {
    status: 403,
    message: "You can manage only service accounts whose scopes you have yourself. Nothing was changed.",
  },
};

/** Creates a service account with its first credential. */
export async function addServiceAccount(
  context: AppLoadContext,
  { manager, account }: { manager: ServiceAccountManager; account: NewAccount },
): Promise<AccountChangeOutcome> {
  const { name, scopes, allowedAddresses, expiresAt, reason } = account;
  const change = { account: null, version: null, name, scopes, allowedAddresses, expiresAt, enabled: true, reason };
  if (account.credential === "secret") {
    const secret = newOpaqueToken("");
    const secretHash = hashToBytea(secret);
    return applyChange(context, { manager, name: "save_service_account", change: { ...change, secretHash }, secret });
  }
  const parsed = await parsePublicKey(account.publicKey);
  if ("fault" in parsed) return refuseKey(parsed.fault);
  const withKey = { ...change, publicJwk: parsed.key };
  return applyChange(context, { manager, name: "save_service_account", change: withKey });
}

/** Changes a service account. */
export async function changeServiceAccount(
  context: AppLoadContext,
  { manager, account, change }: { manager: ServiceAccountManager; account: ServiceAccount; change: AccountChange },
): Promise<AccountChangeOutcome> {
  const { reason } = change;
  const target = { account: account.id, reason };
  switch (change.step) {
    case "edit": {
      const { version, name, scopes, allowedAddresses, expiresAt } = change;
      const edited = { ...target, version, name, scopes, allowedAddresses, expiresAt, enabled: account.enabled };
      return applyChange(context, { manager, name: "save_service_account", change: edited });
    }
    case "enable":
    case "disable": {
      const { name, scopes, allowedAddresses, expiresAt } = account;
      const settings = { name, scopes, allowedAddresses, expiresAt, enabled: change.step === "enable" };
      const switched = { ...target, version: change.version, ...settings };
      return applyChange(context, { manager, name: "save_service_account", change: switched });
    }
    case "rotate": {
      const secret = newOpaqueToken("");
      const rotation = { ...target, secretHash: hashToBytea(secret), overlapSeconds: change.overlapSeconds };
      return applyChange(context, { manager, name: "rotate_service_secret", change: rotation, secret });
    }
    case "add-key": {
      const parsed = await parsePublicKey(change.publicKey);
      if ("fault" in parsed) return refuseKey(parsed.fault);
      const added = { ...target, publicJwk: parsed.key };
      return applyChange(context, { manager, name: "add_service_key", change: added });
    }
    case "remove": {
      const removed = { ...target, credential: change.credential };
      return applyChange(context, { manager, name: "remove_service_credential", change: removed });
    }
    case "revoke":
      return applyChange(context, { manager, name: "revoke_service_account", change: target });
  }
}

function refuseKey(fault: string): AccountChangeOutcome {
  return { outcome: "refused", status: 400, message: fault, field: "publicKey" };
}

/** Makes a change for the person. The database decides by `workspace` whose rights and which log apply. */
async function applyChange(
  context: AppLoadContext,
  {
    manager: { owner, person },
    name,
    change,
    secret = null,
  }: { manager: ServiceAccountManager; name: string; change: Record<string, unknown>; secret?: string | null },
): Promise<AccountChangeOutcome> {
  const result = await applyConsoleChange(context, {
    admin: person,
    name,
    change: { ...change, workspace: owner.workspaceId },
    refusals: owner.workspaceId === null ? refusals : workspaceRefusals,
  });
  return result.outcome === "changed" ? { outcome: "changed", id: result.id ?? null, secret } : result;
}
