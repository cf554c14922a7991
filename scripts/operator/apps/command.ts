import { parseArgs } from "node:util";
import { z } from "zod";
import { isLoopback } from "#shared/loopback.ts";
import { canonicalResource } from "../../../remix-app/openid/authorization-request.ts";
import { clientNameFault } from "../../../remix-app/openid/client-name.ts";
import { logoutUrlFault, maxUris, redirectUriFault } from "../../../remix-app/openid/client-uris.ts";

/** Scopes that a registration may hold. The database has the same list. */
const scopes = [
  "profile",
  "workspaces:read",
  "workspaces:write",
  "studio:read",
  "studio:keys",
  "workspace:session",
  "ai:use",
  "tts:use",
];
const appName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{1,39}$/, "a name is 2 to 40 of a–z, 0–9 and -, and begins with a letter")
  .refine((name) => name !== "web" && name !== "central", "web and central are the platform's own names");
const reason = z.string().trim().min(1, "say why with --reason: it goes into the audit log").max(400);

/** An origin as browsers write it: no path, no default port, and https except on this machine. */
const origin = z.string().transform((text, context) => {
  const url = URL.parse(text);
  if (url && url.origin === text && /^https?:$/.test(url.protocol)) return text;
  context.addIssue({ code: "custom", message: `${text} is not a complete origin, such as https://notes.example.com` });
  return z.NEVER;
});

export type AppCommand =
  | { verb: "list" }
  | {
      verb: "add";
      name: string;
      displayName: string;
      kind: "internal" | "external";
      origins: string[];
      scopes: string[];
      logoutUrl: string | null;
      resourceUrl: string | null;
      reason: string;
    }
  | {
      verb: "add-client";
      name: string;
      displayName: string;
      isPublic: boolean;
      redirectUris: string[];
      postLogoutRedirectUris: string[];
      logoutUrl: string | null;
      allowsDeviceGrant: boolean;
      requiresPkce: boolean;
      claimsInIdToken: boolean;
      groupsWorkspaceId: string | null;
      scopes: string[];
      reason: string;
    }
  | { verb: "show"; name: string }
  | { verb: "change"; name: string; reason: string; changes: AppChanges; isPublicRequired: boolean }
  | { verb: "rotate-secret"; name: string; overlapSeconds: number; reason: string }
  | { verb: "enable" | "disable"; name: string; reason: string }
  | { verb: "link" | "unlink"; name: string; workspaceId: string; reason: string };

/** The changes that the `change` command makes. Absent fields stay unchanged. */
export interface AppChanges {
  displayName?: string;
  redirectUris?: string[];
  postLogoutRedirectUris?: string[];
  logoutUrl?: string | null;
  resourceUrl?: string | null;
  allowsDeviceGrant?: boolean;
  requiresPkce?: boolean;
  claimsInIdToken?: boolean;
  groupsWorkspaceId?: string | null;
  scopes?: string[];
}

export const usage = `npm run gatehouse -- app list
npm run gatehouse -- app add <name> --display-name <text> --origin <https://…> [--origin …] [--kind internal|external] [--scope …] [--logout-url <https://…>] [--resource-url <https://…>] --reason <text>
npm run gatehouse -- app add <name> --kind openid --display-name <text> --redirect-uri <https://…> [--redirect-uri …] [--public] [--device-grant] [--no-pkce] [--claims-in-id-token] [--groups-workspace <id>] [--scope …] [--logout-url <https://…>] [--post-logout-redirect-uri …] --reason <text>
npm run gatehouse -- app show <name>
npm run gatehouse -- app change <name> [--display-name <text>] [--redirect-uri …] [--post-logout-redirect-uri …] [--logout-url <https://…>|none] [--resource-url <https://…>|none] [--[no-]device-grant] [--[no-]pkce] [--[no-]claims-in-id-token] [--groups-workspace <id>|none] [--scope …] --reason <text>
npm run gatehouse -- app rotate-secret <name> [--overlap <seconds, 0–86400>] --reason <text>
npm run gatehouse -- app enable|disable <name> --reason <text>
npm run gatehouse -- app link|unlink <name> --workspace <id> --reason <text>

Scopes: ${scopes.join(", ")}.
studio:keys is for OpenID clients, the last three are for external apps. Of an internal or
external app, change sets --logout-url and --resource-url alone; a list that it names replaces the
one before. --resource-url makes an internal app an MCP server or API that clients can call.
--no-pkce is for a confidential client whose library has no PKCE, such as
passport-openidconnect. --claims-in-id-token puts name, email and groups into the ID token;
groups are the person's role in the --groups-workspace, for clients with workspaces:read.`;

/**
 * Parses the command line.
 * @param options.development whether origins of this machine may be registered
 * @param options.platform the platform's name, which no OpenID client may imitate
 * @throws Error with a one-sentence message for the operator
 */
export function readAppCommand(
  argv: string[],
  { development, platform }: { development: boolean; platform: string },
): AppCommand {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    allowNegative: true,
    options: {
      "claims-in-id-token": { type: "boolean" },
      "device-grant": { type: "boolean" },
      "display-name": { type: "string" },
      "groups-workspace": { type: "string" },
      kind: { type: "string" },
      "logout-url": { type: "string" },
      origin: { type: "string", multiple: true },
      overlap: { type: "string" },
      pkce: { type: "boolean" },
      "post-logout-redirect-uri": { type: "string", multiple: true },
      public: { type: "boolean" },
      reason: { type: "string" },
      "redirect-uri": { type: "string", multiple: true },
      "resource-url": { type: "string" },
      scope: { type: "string", multiple: true },
      workspace: { type: "string" },
    },
  });
  const [verb, name, ...more] = positionals;
  if (more.length > 0) throw new Error(`${more[0]}: one thing too many.\n\n${usage}`);
  if (verb === "list") return { verb };
  if (verb === undefined) throw new Error(usage);
  if (verb === "show") return { verb, name: read(appName, name ?? "") };
  const common = { name: read(appName, name ?? ""), reason: read(reason, values.reason ?? "") };
  switch (verb) {
    case "add":
      if (values.kind === "openid") return readClient(values, { ...common, platform });
      if (values.kind === "external" && values["resource-url"] !== undefined) {
        throw new Error("--resource-url is for internal apps.");
      }
      for (const option of clientOptions) {
        if (values[option] !== undefined) throw new Error(`--${option} is for --kind openid.`);
      }
      return readApp(values, { ...common, development });
    case "change":
      return readChange(values, { ...common, platform });
    case "rotate-secret":
      return {
        verb,
        ...common,
        overlapSeconds: read(z.coerce.number().int().min(0).max(86_400), values.overlap ?? "0"),
      };
    case "enable":
    case "disable":
      return { verb, ...common };
    case "link":
    case "unlink":
      return { verb, ...common, workspaceId: read(z.uuid("name a --workspace by its id"), values.workspace) };
    default:
      throw new Error(usage);
  }
}

/** The options of `add` that only an OpenID client has. */
const clientOptions = [
  ...(["redirect-uri", "post-logout-redirect-uri", "public", "device-grant"] as const),
  ...(["pkce", "claims-in-id-token", "groups-workspace"] as const),
];

type Values = Partial<{
  "claims-in-id-token": boolean;
  "device-grant": boolean;
  "display-name": string;
  "groups-workspace": string;
  kind: string;
  "logout-url": string;
  origin: string[];
  "post-logout-redirect-uri": string[];
  pkce: boolean;
  public: boolean;
  "redirect-uri": string[];
  "resource-url": string;
  scope: string[];
}>;
type Common = { name: string; reason: string };

const displayName = z.string().trim().min(1, "name it with --display-name").max(80);
const clientScopes = scopes.slice(0, 5);

function readApp(values: Values, { development, ...common }: Common & { development: boolean }): AppCommand {
  const origins = read(z.array(origin).min(1, "name an --origin"), values.origin ?? []);
  const local = origins.find((one) => isLoopback(new URL(one).hostname));
  if (local && !development) throw new Error(`${local} is of this machine: registered in development only.`);
  return {
    verb: "add",
    ...common,
    displayName: read(displayName, values["display-name"] ?? ""),
    kind: read(z.enum(["internal", "external"]), values.kind ?? "internal"),
    origins,
    scopes: read(z.array(z.enum(scopes)), values.scope ?? ["profile"]),
    logoutUrl: logoutUrlOf(values) ?? null,
    resourceUrl: resourceUrlOf(values) ?? null,
  };
}

function readClient(values: Values, { platform, ...common }: Common & { platform: string }): AppCommand {
  const isPublic = values.public ?? false;
  const allowsDeviceGrant = values["device-grant"] ?? false;
  const redirectUris = urisOf(values["redirect-uri"] ?? [], { isPublic });
  if (values.origin) throw new Error("An OpenID client has no --origin: name its --redirect-uri.");
  if (values["resource-url"] !== undefined) throw new Error("--resource-url is for internal apps.");
  if (redirectUris.length === 0 && !allowsDeviceGrant) {
    throw new Error(`Name a --redirect-uri, or allow the --device-grant.\n\n${usage}`);
  }
  const requiresPkce = values.pkce ?? true;
  if (isPublic && !requiresPkce) throw new Error("A --public client can't do without PKCE.");
  return {
    verb: "add-client",
    ...common,
    displayName: clientNameOf(values["display-name"] ?? "", platform),
    isPublic,
    redirectUris,
    postLogoutRedirectUris: urisOf(values["post-logout-redirect-uri"] ?? [], { isPublic }),
    logoutUrl: logoutUrlOf(values) ?? null,
    allowsDeviceGrant,
    requiresPkce,
    claimsInIdToken: values["claims-in-id-token"] ?? false,
    groupsWorkspaceId: groupsWorkspaceOf(values) ?? null,
    scopes: read(z.array(z.enum(clientScopes)), values.scope ?? ["profile"]),
  };
}

function clientNameOf(text: string, platform: string): string {
  const name = read(displayName, text);
  const fault = clientNameFault(name, { platform });
  if (fault) throw new Error(`${fault}. Choose another --display-name.`);
  return name;
}

/** @returns null for `none`, undefined if the option is absent */
function groupsWorkspaceOf({ "groups-workspace": id }: Values): string | null | undefined {
  if (id === undefined || id === "none") return id === undefined ? undefined : null;
  return read(z.uuid("name a --groups-workspace by its id"), id);
}

function readChange(values: Values, { platform, ...common }: Common & { platform: string }): AppCommand {
  const [logoutUrl, resourceUrl] = [logoutUrlOf(values), resourceUrlOf(values)];
  const groupsWorkspaceId = groupsWorkspaceOf(values);
  const uris = { redirect: values["redirect-uri"], postLogout: values["post-logout-redirect-uri"] };
  const all = [...(uris.redirect ?? []), ...(uris.postLogout ?? [])];
  const changes: AppChanges = {
    ...(values["display-name"] !== undefined && { displayName: clientNameOf(values["display-name"], platform) }),
    ...(uris.redirect && { redirectUris: urisOf(uris.redirect, { isPublic: true }) }),
    ...(uris.postLogout && { postLogoutRedirectUris: urisOf(uris.postLogout, { isPublic: true }) }),
    ...(logoutUrl !== undefined && { logoutUrl }),
    ...(resourceUrl !== undefined && { resourceUrl }),
    ...(values["device-grant"] !== undefined && { allowsDeviceGrant: values["device-grant"] }),
    ...(values.pkce !== undefined && { requiresPkce: values.pkce }),
    ...(values["claims-in-id-token"] !== undefined && { claimsInIdToken: values["claims-in-id-token"] }),
    ...(groupsWorkspaceId !== undefined && { groupsWorkspaceId }),
    ...(values.scope && { scopes: read(z.array(z.enum(clientScopes)), values.scope) }),
  };
  if (Object.keys(changes).length === 0) throw new Error(`Say what to change.\n\n${usage}`);
  const isPublicRequired = all.some((uri) => redirectUriFault(uri, { isPublic: false }) !== null);
  return { verb: "change", ...common, changes, isPublicRequired };
}

/** @returns null for `none`, undefined if the option is absent */
function logoutUrlOf({ "logout-url": text }: Values): string | null | undefined {
  if (text === undefined || text === "none") return text === undefined ? undefined : null;
  const fault = logoutUrlFault(text);
  if (fault) throw new Error(`${fault}.`);
  return text;
}

/** @returns null for `none`, undefined if the option is absent */
function resourceUrlOf({ "resource-url": text }: Values): string | null | undefined {
  if (text === undefined || text === "none") return text === undefined ? undefined : null;
  const url = canonicalResource(text);
  if (url === null || url.includes("?") || !(url.startsWith("https:") || isLoopback(new URL(url).hostname))) {
    throw new Error(`${text} isn’t the URL of an MCP server or API, such as https://tools.example.com/mcp.`);
  }
  return url;
}

function urisOf(given: readonly string[], { isPublic }: { isPublic: boolean }): string[] {
  const fault = given.map((uri) => redirectUriFault(uri, { isPublic })).find((each) => each !== null);
  if (fault) throw new Error(`${fault}.`);
  if (given.length > maxUris) throw new Error(`At most ${maxUris} redirect URIs.`);
  return [...new Set(given)];
}

function read<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Error(`${parsed.error.issues[0]?.message ?? "not valid"}.\n\n${usage}`);
}
