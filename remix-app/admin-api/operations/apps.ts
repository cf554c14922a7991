import { z } from "zod";
import {
  appSchema,
  hasForbiddenOrigin,
  listedAppSchema,
  localOrigins,
  maxOrigins,
  originFault,
  requireApp,
} from "../../admin/apps.ts";
import { clientSchema, requireOpenidClient } from "../../admin/openid-clients.ts";
import { appName, displayName } from "../../admin/registry.ts";
import { appScopes } from "../../apps/app-rights.ts";
import { pageQuery } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import { clientNameFault } from "../../openid/client-name.ts";
import { logoutUrlFault, maxUris, redirectUriFault } from "../../openid/client-uris.ts";
import {
  type AdminCall,
  byKeys,
  changeBody,
  defineChange,
  defineList,
  defineRead,
  pickFields,
  searchQuery,
} from "../define.ts";

const byName = byKeys(1, ({ name }: { name: string }) => [name]);

export const appReads = {
  listApps: defineList({
    summary: "List or search apps",
    description: "By name. q is a part of a name. Lists no OpenID clients.",
    field: "apps",
    rows: listedAppSchema,
    name: "private.list_apps",
    order: byName,
    query: searchQuery,
    args: ({ after, query }) => ({ term: query.q, after: after?.[0] ?? null }),
  }),
  getApp: defineRead({
    summary: "Get an app",
    description: "With a page of its linked workspaces, and the times of its secrets.",
    query: pageQuery.pick({ cursor: true }),
    answer: appSchema.extend({ nextCursor: z.string().nullable() }),
    read: ({ context, param }, { cursor = null }) => requireApp(context, param("name"), cursor),
  }),
  listOpenidClients: defineList({
    summary: "List or search OpenID clients",
    description: "By name. q is a part of a name.",
    field: "clients",
    rows: clientSchema.omit({ version: true }),
    name: "private.list_openid_clients",
    order: byName,
    query: searchQuery,
    args: ({ after, query }) => ({ term: query.q, after: after?.[0] ?? null }),
  }),
  getOpenidClient: defineRead({
    summary: "Get an OpenID client",
    answer: z.object({ client: clientSchema }),
    read: async ({ context, param }) => ({ client: await requireOpenidClient(context, param("name")) }),
  }),
};

/** Reads a text for which a rule finds no fault. */
const faultless = (faultOf: (text: string) => string | null) =>
  z.string().superRefine((text, issue) => {
    const message = faultOf(text);
    if (message !== null) issue.addIssue({ code: "custom", message });
  });

const logoutUrl = faultless(logoutUrlFault).nullable();
const origins = z.array(faultless(originFault)).max(maxOrigins);
const scopes = z.array(z.enum(appScopes.map(({ scope }) => scope)));
/** The database knows which scopes an OpenID client may have. */
const clientScopes = z.array(z.string().regex(/^[a-z_:]{1,64}$/)).max(20);
const uris = z.array(z.string().min(1)).max(maxUris);

const clientFields = {
  displayName,
  scopes: clientScopes,
  redirectUris: uris,
  postLogoutRedirectUris: uris,
  logoutUrl,
  allowsDeviceGrant: z.boolean(),
  requiresPkce: z.boolean(),
  claimsInIdToken: z.boolean(),
  groupsWorkspaceId: z.uuid().nullable(),
};
const appFields = { displayName, origins, scopes, logoutUrl };

const version = z.uuid().nullable().describe("The version that you read.");
const versioned = changeBody.extend({ version });
const overlapSeconds = z.number().int().min(0).max(86_400).describe("How long the earlier secrets keep working.");
const versionExample = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
const versionNote = "Refused if it has changed since its version.";
const disableNote = "Its sessions and tokens are revoked for all its users. Its registration and secrets stay.";
const secretNote = "The secret is only in this response.";

/** @throws Response 400 for origins of this machine in production */
function checkOrigins({ context }: AdminCall, list: readonly string[] = []): void {
  if (!hasForbiddenOrigin(context, list)) return;
  const members = { param: "origins" };
  throw problem("INVALID_REQUEST", { requestId: context.requestId, detail: localOrigins, members });
}

/** @throws Response 400 for a name like the platform's, or for what the client may not have */
function checkClient(
  { context }: AdminCall,
  client: Partial<Record<"redirectUris" | "postLogoutRedirectUris", string[] | undefined>> & {
    displayName?: string | undefined;
    requiresPkce?: boolean | undefined;
    isPublic: boolean;
  },
): void {
  const platform = context.env.BRAND_NAME;
  const { displayName: name, redirectUris = [], postLogoutRedirectUris = [], requiresPkce = true, isPublic } = client;
  const nameFault = name === undefined ? null : clientNameFault(name, { platform });
  const fault =
    nameFault ??
    [...redirectUris, ...postLogoutRedirectUris]
      .map((uri) => redirectUriFault(uri, { isPublic }))
      .find((each) => each !== null) ??
    (isPublic && !requiresPkce ? "Only a confidential client can do without PKCE" : null);
  if (fault === null) return;
  const members = nameFault ? { param: "displayName" } : {};
  throw problem("INVALID_REQUEST", { requestId: context.requestId, detail: `${fault}.`, members });
}

/** Returns the name of a registration of one kind. @throws Response 404 for an unknown name, or one of the other kind */
type RequireName = (call: AdminCall) => Promise<string>;
const requireAppName: RequireName = async ({ context, param }) => (await requireApp(context, param("name"))).name;
const requireClientName: RequireName = async ({ context, param }) =>
  (await requireOpenidClient(context, param("name"))).name;

/** Returns a change that has only a version and a step, of an app or a client. */
const step = (
  name: "enable" | "disable",
  { requireName, ...described }: { summary: string; description: string; requireName: RequireName },
) =>
  defineChange({
    ...described,
    body: versioned,
    example: { version: versionExample, reason: "Ticket 4711" },
    change: async (call, { version: seen }) => ({ name: await requireName(call), version: seen, step: name }),
  });

const rotation = (summary: string, requireName: RequireName) =>
  defineChange({
    summary,
    description: `${secretNote} ${versionNote}`,
    body: versioned.extend({ overlapSeconds }),
    example: { version: versionExample, overlapSeconds: 3600, reason: "Yearly rotation" },
    createsSecret: () => true,
    change: async (call, { version: seen, overlapSeconds: overlap }) => ({
      name: await requireName(call),
      version: seen,
      step: "rotate",
      overlapSeconds: overlap,
    }),
  });

const withSecret = z.boolean().default(true).describe("Whether to create a first secret. If not, rotate to get one.");

export const appChanges = {
  registerApp: defineChange({
    summary: "Register an app",
    description: secretNote,
    body: changeBody.extend({
      name: appName,
      kind: z.enum(["internal", "external"]),
      ...appFields,
      origins: origins.default([]),
      logoutUrl: logoutUrl.default(null),
      withSecret,
    }),
    example: {
      name: "notes",
      kind: "internal",
      displayName: "Notes",
      origins: ["https://notes.example.com"],
      scopes: ["profile"],
      reason: "Ticket 4711",
    },
    createsSecret: (values) => values.withSecret,
    change(call, values) {
      checkOrigins(call, values.origins);
      return values;
    },
  }),
  changeApp: defineChange({
    summary: "Change an app",
    description: `Changes only the given fields. Removed scopes stop working immediately. ${versionNote}`,
    body: versioned.extend(z.strictObject(appFields).partial().shape),
    example: { version: versionExample, displayName: "Notes 2", reason: "New name" },
    async change(call, { version: seen, ...changed }) {
      checkOrigins(call, changed.origins);
      const app = await requireApp(call.context, call.param("name"));
      return { ...pickFields(app, appFields), ...changed, name: app.name, version: seen, step: "edit" };
    },
  }),
  enableApp: step("enable", {
    requireName: requireAppName,
    summary: "Enable an app",
    description: `Sessions and tokens from before stay revoked. ${versionNote}`,
  }),
  disableApp: step("disable", {
    requireName: requireAppName,
    summary: "Disable an app",
    description: `${disableNote} ${versionNote}`,
  }),
  rotateAppSecret: rotation("Give an app a new secret", requireAppName),
  linkAppWorkspace: defineChange({
    summary: "Link an external app to a workspace",
    description: `Its usage there costs the workspace no credits. ${versionNote}`,
    body: versioned.extend({ workspace: z.uuid() }),
    example: { version: versionExample, workspace: versionExample, reason: "Contract signed" },
    change: ({ param }, { version: seen, workspace }) => ({
      name: param("name"),
      version: seen,
      step: "link",
      workspace,
    }),
  }),
  unlinkAppWorkspace: defineChange({
    summary: "Unlink an app from a workspace",
    description: `Its tokens and keys stop working there immediately. ${versionNote}`,
    body: versioned,
    example: { version: versionExample, reason: "Contract ended" },
    change: ({ param, uuid }, { version: seen }) => ({
      name: param("name"),
      version: seen,
      step: "unlink",
      workspace: uuid("workspaceId"),
    }),
  }),
  registerOpenidClient: defineChange({
    summary: "Register an OpenID client",
    description: `A public client has no secret and must use PKCE. ${secretNote}`,
    body: changeBody
      .extend({
        name: appName,
        isPublic: z.boolean(),
        ...clientFields,
        redirectUris: uris.default([]),
        postLogoutRedirectUris: uris.default([]),
        logoutUrl: logoutUrl.default(null),
        allowsDeviceGrant: z.boolean().default(false),
        requiresPkce: z.boolean().default(true),
        claimsInIdToken: z.boolean().default(false),
        groupsWorkspaceId: clientFields.groupsWorkspaceId.default(null),
        withSecret,
      })
      .refine(({ redirectUris, allowsDeviceGrant }) => redirectUris.length > 0 || allowsDeviceGrant, {
        path: ["redirectUris"],
        error: "Send a redirect URI, or allow sign-in on devices.",
      }),
    example: {
      name: "grafana",
      displayName: "Grafana",
      isPublic: false,
      scopes: ["profile"],
      redirectUris: ["https://grafana.example.com/login/generic_oauth"],
      reason: "Ticket 4711",
    },
    createsSecret: (values) => values.withSecret && !values.isPublic,
    change(call, values) {
      checkClient(call, values);
      return values;
    },
  }),
  changeOpenidClient: defineChange({
    summary: "Change an OpenID client",
    description: `Changes only the given fields. Removed scopes stop working immediately. ${versionNote}`,
    body: versioned.extend(z.strictObject(clientFields).partial().shape),
    example: { version: versionExample, requiresPkce: true, reason: "Security review" },
    async change(call, values) {
      const { name, isPublic } = await requireOpenidClient(call.context, call.param("name"));
      checkClient(call, { ...values, isPublic });
      return { ...values, name };
    },
  }),
  enableOpenidClient: step("enable", {
    requireName: requireClientName,
    summary: "Enable an OpenID client",
    description: `Tokens from before stay revoked. ${versionNote}`,
  }),
  disableOpenidClient: step("disable", {
    requireName: requireClientName,
    summary: "Disable an OpenID client",
    description: `${disableNote} ${versionNote}`,
  }),
  rotateOpenidSecret: rotation("Give an OpenID client a new secret", requireClientName),
};
