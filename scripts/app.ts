import { createClient } from "@supabase/supabase-js";
import { z } from "zod";
import { hashOf, newOpaqueToken } from "../remix-app/satellites/tokens.ts";
import { type AppCommand, readAppCommand, usage } from "./apps/command.ts";
import { helpWhereAsked } from "./operator/help.ts";
import { operatorProject } from "./operator/project.ts";

/**
 * `npm run app -- …`: registers and manages apps in the project that the environment names, else in the running local
 * stack. A secret is printed once, when it is made.
 */
helpWhereAsked(usage);
const { url, secretKey, development } = operatorProject();
const database = createClient(url, secretKey, { auth: { persistSession: false, autoRefreshToken: false } }).schema(
  "private",
);

const listed = z.object({
  name: z.string(),
  displayName: z.string(),
  kind: z.string(),
  enabled: z.boolean(),
  scopes: z.array(z.string()),
  origins: z.array(z.string()),
});

try {
  await run(readAppCommand(process.argv.slice(2), { development }));
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
        secret_hash: hashOf(secret),
        reason: command.reason,
      });
      console.log(`${command.name} is registered. Its secret, shown this once:\n\n  APP_SECRET=${secret}\n`);
      return;
    }
    case "rotate-secret": {
      const secret = newOpaqueToken("");
      const { name, overlapSeconds, reason } = command;
      const rotation = { app_name: name, secret_hash: hashOf(secret), overlap_seconds: overlapSeconds, reason };
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

function unknown(name: string): Error {
  return new Error(`There is no app called ${name}. See them with: npm run app -- list`);
}

/** Calls a function of the registry. What it refuses is said in words where it is the caller's to mend. */
async function call(name: string, args: Record<string, unknown>): Promise<unknown> {
  const { data, error } = await database.rpc(name, args);
  if (!error) return data;
  if (error.code === "23505") throw new Error("An app of that name, or with that origin, is registered already.");
  if (error.code === "23514")
    throw new Error("The registry does not take this: an internal app has no gateway scopes.");
  throw new Error(`The registry did not answer (${error.code || "no connection"}). Is the project running?`);
}
