import { existsSync, writeFileSync } from "node:fs";
import { readArguments } from "../../scripts/help.ts";
import { composeOptions, createComposeSettings, formatEnvFile, providersExample } from "./settings.ts";

const usage = `npm run gatehouse -- compose --app <address> --api <address> --smtp <address> --from <sender>

Writes deploy/compose/.env with new secrets, and deploy/compose/providers.env, for Gatehouse on one machine.

--app   where browsers find the web server, such as https://app.example.com
--api   where clients find Supabase and the gateway, such as https://api.example.com
--smtp  your mail server, such as smtps://user:password@smtp.example.com:465
--from  the sender of emails, such as "Gatehouse <no-reply@example.com>"`;

const text = { type: "string" } as const;
const { values } = readArguments(usage, { options: { app: text, api: text, smtp: text, from: text } });
const options = composeOptions.safeParse(values);
if (!options.success) {
  for (const { path, message } of options.error.issues) console.error(`--${path.join(".")}: ${message}`);
  console.error(`\n${usage}`);
  process.exit(2);
}

try {
  const file = "deploy/compose/.env";
  // The existing secrets open the existing database.
  if (existsSync(file)) throw new Error(`${file} exists. Edit it, or remove it together with the database's volume.`);
  writeFileSync(file, formatEnvFile(await createComposeSettings(options.data)), { mode: 0o600, flag: "wx" });
  console.log(`wrote ${file}`);
  const providers = "deploy/compose/providers.env";
  if (!existsSync(providers)) {
    writeFileSync(providers, providersExample, { mode: 0o600 });
    console.log(`wrote ${providers}`);
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
