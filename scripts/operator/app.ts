import { createClient } from "@supabase/supabase-js";
import { z } from "zod";
import { hashToBytea, newOpaqueToken } from "../../remix-app/apps/opaque-tokens.ts";
import { defaultName } from "../../remix-app/config/brand.ts";
import { helpWhereAsked } from "../help.ts";
import { type AppCommand, readAppCommand, usage } from "./apps/command.ts";
import { operatorProject } from "./project.ts";

/**
 * `npm run gatehouse -- app …`: registers and manages apps, in the project that the environment names or, by default, in the
 * running local stack. A secret is printed once, when it is created.
 */
helpWhereAsked(usage);
const { url, secretKey, development } = operatorProject();
const database = createClient(url, secretKey, { auth: { persistSession: false, autoRefreshToken: false } }).schema(
  "private",
);

const client = z.object({
  name: z.string(),
  displayName: z.string(),
  enabled: z.boolean(),
  isPublic: z.boolean(),
  scopes: z.array(z.string()),
  redirectUris: z.array(z.string()),
  postLogoutRedirectUris: z.array(z.string()),
  logoutUrl: z.string().nullable(),
  allowsDeviceGrant: z.boolean(),
  requiresPkce: z.boolean(),
  claimsInIdToken: z.boolean(),
  groupsWorkspaceId: z.uuid().nullable(),
});
const answered = z.object({ refused: z.string().optional() });

const listed = z.object({
  name: z.string(),
  displayName: z.string(),
  kind: z.string(),
  enabled: z.boolean(),
  scopes: z.array(z.string()),
  origins: z.array(z.string()),
});

try {
  const platform = process.env.BRAND_NAME || defaultName;
  await run(readAppCommand(process.argv.slice(2), { development, platform }));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function run(command: AppCommand): Promise<void> {
  switch (command.verb) {
    case "list": {
      for (const app of z.array(listed).parse(await call("list_apps", {}))) {
        const facts = [app.kind, app.enabled ? "enabled" : "disabled", ...app.origins, app.scopes.join(" ")];
        console.log(`${app.name} (${app.displayName}): ${facts.filter(Boolean).join(", ")}`);
      }
      for (const each of z.array(client).parse(await call("list_openid_clients", {}))) {
        const facts = ["openid", each.enabled ? "enabled" : "disabled", ...each.redirectUris, each.scopes.join(" ")];
        console.log(`${each.name} (${each.displayName}): ${facts.filter(Boolean).join(", ")}`);
      }
      return;
    }
    case "add": {
      const secret = newOpaqueToken("");
      await call("register_app", {
        app_name: command.name,
        display_name: command.displayName,
        kind: command.kind,
        origins: command.origins,
        scopes: command.scopes,
        secret_hash: hashToBytea(secret),
        reason: command.reason,
      });
      const { name, reason, logoutUrl, resourceUrl } = command;
      console.log(`${name} is registered. Its secret, shown this once:\n\n  APP_SECRET=${secret}\n`);
      if (logoutUrl !== null) await setUrl({ name, reason, logoutUrl });
      if (resourceUrl !== null) await setUrl({ name, reason, resourceUrl });
      return;
    }
    case "add-client": {
      const { verb: _, ...asked } = command;
      const secret = command.isPublic ? null : newOpaqueToken("");
      await changeClients("add_openid_client", { ...asked, secretHash: secret && hashToBytea(secret) });
      console.log(
        secret === null
          ? `${command.name} is registered as a public client: it has no secret, and proves itself by PKCE.`
          : `${command.name} is registered. Its secret, shown this once:\n\n  client_id=${command.name}\n  client_secret=${secret}\n`,
      );
      return;
    }
    case "show":
      return show(command.name);
    case "change": {
      const { name, reason, changes, isPublicRequired } = command;
      const known = await readClient(name);
      if (known) {
        if (changes.resourceUrl !== undefined) throw new Error("--resource-url is for internal apps.");
        if (isPublicRequired && !known.isPublic) throw new Error("Private-use schemes are for public clients only.");
        await changeClients("change_openid_client", { name, reason, ...changes });
      } else {
        const { logoutUrl, resourceUrl, ...others } = changes;
        if (Object.keys(others).length > 0) {
          throw new Error(`${name} is not an OpenID client: change sets its --logout-url and --resource-url alone.`);
        }
        if (logoutUrl !== undefined) await setUrl({ name, reason, logoutUrl });
        if (resourceUrl !== undefined) await setUrl({ name, reason, resourceUrl });
      }
      console.log(`${name} is changed.`);
      return;
    }
    case "rotate-secret": {
      const secret = newOpaqueToken("");
      const { name, overlapSeconds, reason } = command;
      const rotation = { app_name: name, secret_hash: hashToBytea(secret), overlap_seconds: overlapSeconds, reason };
      const endsAt = await call("rotate_app_secret", rotation);
      if (endsAt === null) throw unknown(name);
      console.log(`The secrets before end at ${endsAt}. The new one, shown this once:\n\n  APP_SECRET=${secret}\n`);
      return;
    }
    case "enable":
    case "disable": {
      const change = { app_name: command.name, enabled: command.verb === "enable", reason: command.reason };
      if (!(await call("set_app_enabled", change))) throw unknown(command.name);
      console.log(`${command.name} is ${command.verb}d.`);
      return;
    }
    case "link":
    case "unlink": {
      const { name, workspaceId, reason, verb } = command;
      const change = { app_name: name, workspace_id: workspaceId, linked: verb === "link", reason };
      if (!(await call("set_app_workspace", change))) throw new Error("There is no such app, or no such workspace.");
      console.log(`${name} is ${verb}ed.`);
    }
  }
}

async function readClient(name: string): Promise<z.infer<typeof client> | null> {
  return client.nullable().parse(await call("read_openid_client", { client_id: name }));
}

async function show(name: string): Promise<void> {
  const known = await readClient(name);
  if (known) {
    const lines = [
      ["kind", known.isPublic ? "openid, public" : "openid"],
      ["enabled", known.enabled ? "yes" : "no"],
      ["scopes", known.scopes.join(" ")],
      ...known.redirectUris.map((uri) => ["redirect URI", uri]),
      ...known.postLogoutRedirectUris.map((uri) => ["post-logout redirect URI", uri]),
      ["logout URL", known.logoutUrl ?? "none"],
      ["device grant", known.allowsDeviceGrant ? "allowed" : "not allowed"],
      ["PKCE", known.requiresPkce ? "required" : "not required"],
      ["ID token", known.claimsInIdToken ? "has name, email and groups" : "identifies the account only"],
      ["groups", known.groupsWorkspaceId ? `role in workspace ${known.groupsWorkspaceId}` : "none"],
    ];
    console.log(
      [`${known.name} (${known.displayName})`, ...lines.map(([what, fact]) => `  ${what}: ${fact}`)].join("\n"),
    );
    return;
  }
  const app = listed
    .extend({ logoutUrl: z.string().nullable(), resourceUrl: z.string().nullable() })
    .nullable()
    .parse(await call("read_app", { app_name: name }));
  if (!app) throw unknown(name);
  const lines = [
    ["kind", app.kind],
    ["enabled", app.enabled ? "yes" : "no"],
    ["scopes", app.scopes.join(" ")],
    ...app.origins.map((origin) => ["origin", origin]),
    ["logout URL", app.logoutUrl ?? "none"],
    ...(app.resourceUrl === null ? [] : [["resource URL", app.resourceUrl]]),
  ];
  console.log([`${app.name} (${app.displayName})`, ...lines.map(([what, fact]) => `  ${what}: ${fact}`)].join("\n"));
}

type ChangedUrl = { logoutUrl: string | null } | { resourceUrl: string | null };

async function setUrl({ name, reason, ...changed }: { name: string; reason: string } & ChangedUrl): Promise<void> {
  const isSet =
    "logoutUrl" in changed
      ? await call("set_app_logout_url", { app_name: name, logout_url: changed.logoutUrl, reason })
      : await call("set_app_resource_url", { app_name: name, resource_url: changed.resourceUrl, reason });
  if (!isSet && "resourceUrl" in changed) throw new Error(`There is no internal app called ${name}.`);
  if (!isSet) throw unknown(name);
}

async function changeClients(name: string, change: Record<string, unknown>): Promise<void> {
  const { refused } = answered.parse(await call(name, { change }));
  if (refused === undefined) return;
  if (refused === "taken") throw new Error("An app of that name is registered already.");
  throw new Error("The registry does not take this. Check the scopes and the URIs.");
}

function unknown(name: string): Error {
  return new Error(`There is no app called ${name}. See them with: npm run gatehouse -- app list`);
}

/** Calls a registry function. Explains the refusal if the caller can fix the cause. */
async function call(name: string, args: Record<string, unknown>): Promise<unknown> {
  const { data, error } = await database.rpc(name, args);
  if (!error) return data;
  if (error.code === "23505")
    throw new Error("An app of that name, or with that origin or resource URL, is registered already.");
  if (error.code === "23514")
    throw new Error(
      name === "rotate_app_secret"
        ? "The registry does not take this: a public client has no secret."
        : "The registry does not take this: an internal app has no gateway scopes.",
    );
  throw new Error(`The registry did not answer (${error.code || "no connection"}). Is the project running?`);
}
