import { z } from "zod";
import { utcTime } from "#shared/utc-time.ts";
import { isNetworkAddress } from "../../http/network-address.ts";
import { platformScopes } from "../../machines/scopes.ts";
import { serviceClientId } from "../../machines/service-tokens.ts";
import type { AccountChange } from "../../service-accounts/account-form.ts";
import {
  type AccountChangeOutcome,
  addServiceAccount,
  changeServiceAccount,
} from "../../service-accounts/change-account.ts";
import type { ServiceAccountManager } from "../../service-accounts/owner.ts";
import {
  readAccountCursor,
  requireServiceAccount,
  serviceAccountSchema,
} from "../../service-accounts/service-accounts.ts";
import {
  type ActOutcome,
  type AdminCall,
  byKeys,
  changeBody,
  defineAct,
  defineList,
  defineRead,
  reasonOnly,
  requireAdmin,
  version,
  versionExample,
} from "../define.ts";
import { shortText } from "../fields.ts";

const owner = { workspaceId: null, label: "Console", path: "/admin/service-accounts", scopes: platformScopes };

const managerOf = (call: AdminCall): ServiceAccountManager => ({ owner, person: requireAdmin(call) });

const requireOwn = ({ context, uuid }: AdminCall) =>
  requireServiceAccount(context, { workspaceId: null, id: uuid("serviceAccountId") });

/** Changes the service account of a path. */
async function change(call: AdminCall, step: AccountChange): Promise<ActOutcome> {
  const account = await requireOwn(call);
  const result = await changeServiceAccount(call.context, { manager: managerOf(call), account, change: step });
  return result.outcome === "refused" ? nameKey(result) : result;
}

/** Names the member of the body that has a refused key. */
function nameKey(refusal: Extract<AccountChangeOutcome, { outcome: "refused" }>): ActOutcome {
  return refusal.field === "publicKey" ? { ...refusal, field: "publicJwk" } : refusal;
}

export const serviceAccountReads = {
  listServiceAccounts: defineList({
    summary: "List the platform’s service accounts",
    description: "By name, also revoked ones. Without secrets.",
    field: "serviceAccounts",
    rows: serviceAccountSchema,
    name: "private.list_service_accounts",
    order: { ...byKeys(2, ({ name, id }: { name: string; id: string }) => [name, id]), read: readAccountCursor },
    args: ({ after }) => ({ workspace: null, after }),
  }),
  getServiceAccount: defineRead({
    summary: "Get a service account of the platform",
    answer: z.object({ serviceAccount: serviceAccountSchema }),
    read: async (call) => ({ serviceAccount: await requireOwn(call) }),
  }),
};

const settings = {
  name: shortText(100),
  scopes: z.array(z.enum(platformScopes)).min(1).max(platformScopes.length),
  allowedAddresses: z
    .array(z.string().refine(isNetworkAddress, "must be an IP address or a network, such as 192.0.2.0/24"))
    .max(50),
  expiresAt: utcTime.describe("At most 366 days ahead."),
};
const publicJwk = z.record(z.string().max(20), z.unknown()).describe("A public key of the algorithms in the guide.");

export const serviceAccountActs = {
  createServiceAccount: defineAct({
    summary: "Create a service account",
    description: "With its first credential: the given public key, or a secret, which is only in this response.",
    body: changeBody.extend({
      ...settings,
      allowedAddresses: settings.allowedAddresses.default([]),
      publicJwk: publicJwk.nullable().default(null),
    }),
    example: {
      name: "Deployments",
      scopes: ["admin:catalogue:read", "admin:catalogue:write"],
      expiresAt: "2027-06-30T00:00:00Z",
      reason: "Pipeline of the catalogue",
    },
    answer: z.object({ id: z.uuid(), clientId: z.string(), secret: z.string().nullable() }),
    async act(call, { publicJwk: key, ...values }) {
      const credential = key === null ? ("secret" as const) : ("key" as const);
      const account = { ...values, credential, publicKey: key === null ? "" : JSON.stringify(key) };
      const result = await addServiceAccount(call.context, { manager: managerOf(call), account });
      if (result.outcome === "refused") return nameKey(result);
      const { id, secret } = result;
      return { outcome: "changed", answer: { id, clientId: serviceClientId(id ?? ""), secret } };
    },
  }),
  changeServiceAccount: defineAct({
    summary: "Change a service account, or disable it",
    description: "Changes only the given fields. Removed scopes and addresses apply to existing tokens immediately.",
    body: changeBody.extend({ version, ...z.strictObject({ ...settings, enabled: z.boolean() }).partial().shape }),
    example: { version: versionExample, enabled: false, reason: "No longer used" },
    async act(call, { version: seen, reason, enabled, ...changed }) {
      const account = await requireOwn(call);
      const { name, scopes, allowedAddresses, expiresAt } = { ...account, ...changed };
      return changeServiceAccount(call.context, {
        manager: managerOf(call),
        account: { ...account, enabled: enabled ?? account.enabled },
        change: { step: "edit", version: seen, reason, name, scopes, allowedAddresses, expiresAt },
      });
    },
  }),
  rotateServiceAccountSecret: defineAct({
    summary: "Give a service account a new secret",
    description: "The secret is only in this response. overlapSeconds is how long the earlier secrets keep working.",
    body: changeBody.extend({ overlapSeconds: z.number().int().min(0).max(86_400) }),
    example: { overlapSeconds: 3600, reason: "Yearly rotation" },
    createsSecret: true,
    act: (call, { overlapSeconds, reason }) => change(call, { step: "rotate", version: "", overlapSeconds, reason }),
  }),
  addServiceAccountKey: defineAct({
    summary: "Add a public key to a service account",
    body: changeBody.extend({ publicJwk }),
    example: { publicJwk: { kty: "OKP", crv: "Ed25519", x: "…" }, reason: "New runner" },
    act: (call, { publicJwk: key, reason }) =>
      change(call, { step: "add-key", version: "", publicKey: JSON.stringify(key), reason }),
  }),
  removeServiceAccountCredential: defineAct({
    summary: "Remove a credential of a service account",
    description: "Tokens that it got with the credential end.",
    ...reasonOnly,
    act: (call, { reason }) =>
      change(call, { step: "remove", version: "", credential: call.uuid("credentialId"), reason }),
  }),
  revokeServiceAccount: defineAct({
    summary: "Revoke a service account",
    description: "Ends its tokens and credentials, permanently.",
    ...reasonOnly,
    act: (call, { reason }) => change(call, { step: "revoke", version: "", reason }),
  }),
};
