import { comparingVerbs, usage } from "../packages/cli/src/arguments.ts";

/**
 * `npm run gatehouse -- <verb> …`: the users' command line (`packages/cli`), and with it the operators' commands and the
 * reference phone, which need the checkout.
 */
const commands: Record<string, () => Promise<unknown>> = {
  admin: () => import("./operator/admin.ts"),
  app: () => import("./operator/app.ts"),
  backup: async () => (await import("../deploy/backup/command.ts")).runBackup(),
  compose: () => import("../deploy/compose/main.ts"),
  doctor: () => import("./operator/doctor.ts"),
  "email-templates": () => import("./operator/email-templates.ts"),
  "import-costs": () => import("./operator/import-costs.ts"),
  "import-users": () => import("../deploy/import-users/main.ts"),
  mobile: () => import("./mobile/main.ts"),
  prices: () => import("./operator/prices.ts"),
  restore: async () => (await import("../deploy/backup/command.ts")).runRestore(),
  "service-account": () => import("./operator/service-account.ts"),
  setup: () => import("../deploy/hosted/main.ts"),
};

const checkoutUsage = `For operators, in the project that the environment or .env names, or else in the running local stack:

admin            Grants and revokes access to the admin console, and lifts blocks of IP addresses.
app              Registers and manages apps.
backup           Writes the database's data to an archive.
compose          Writes the settings of Gatehouse on one machine.
doctor           Checks a deployment.
email-templates  Writes the identity backend's emails with your brand.
import-costs     Imports a provider's costs.
import-users     Imports users with their passwords.
prices           Compares the price book with public price files.
restore          Loads an archive into an empty database.
service-account  Creates a service account of the platform.
setup            Sets up a project of hosted Supabase.

For developers of mobile apps:

mobile           A mobile app on the command line.

Add --help to any of these.`;

const [verb = "help", ...rest] = process.argv.slice(2);
const command = Object.hasOwn(commands, verb) ? commands[verb] : undefined;
if (command) {
  // Each command reads its arguments after the script's name.
  process.argv.splice(2, 1);
  await command();
} else if (rest.length === 0 && ["help", "--help", "-h"].includes(verb)) {
  console.log(`${usage}\n\n${checkoutUsage}`);
} else {
  await import("../packages/cli/src/main.ts");
  if (process.exitCode === 2 && !comparingVerbs.includes(verb)) console.error(`\n${checkoutUsage}`);
}
