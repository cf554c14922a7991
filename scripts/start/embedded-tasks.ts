import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import type { Log } from "@gatehousehq/local-stack/runner/log";
import type { Task } from "@gatehousehq/local-stack/runner/service";
import { bootstrapCluster, initialiseCluster } from "@gatehousehq/local-stack/services/postgres/cluster";
import { readManifest } from "../database/contents/releases.ts";
import { applyMigrations, applySqlFile } from "../database/migrations.ts";
import { prepareSnapshot } from "../database/snapshot.ts";
import { databaseUrl } from "./addresses.ts";
import { ensureBuild } from "./build.ts";
import { type DemoData, seedDemo } from "./demo-seed.ts";
import type { ServiceContext } from "./services.ts";

/** Builds the web server if its build is missing or outdated. */
export function buildTask(root: string, log: Log): Task {
  return {
    kind: "task",
    name: "build",
    dependsOn: [],
    run: async (adopt) => {
      await ensureBuild({ root, logFile: log.fileOf("build"), adopt });
    },
  };
}

/**
 * Returns the tasks that the embedded stack runs between starting its services. `onDemo` receives the demo data once it
 * exists.
 */
export function describeTasks(
  context: Pick<ServiceContext, "root" | "dataDir" | "ports" | "addresses" | "secrets" | "environment" | "placement">,
  { log, testModels, onDemo }: { log: Log; testModels: boolean; onDemo: (data: DemoData) => void },
): Task[] {
  const { root, dataDir, ports, addresses, secrets, environment, placement } = context;
  const dbUrl = databaseUrl("postgres", secrets, ports.postgres);
  return [
    {
      kind: "task",
      name: "cluster",
      dependsOn: [],
      run: async (adopt) => {
        const { IDENTITY_BIN, POSTGRES_BIN: folder } = environment.settings;
        // Another identity backend creates its own version of the schema `auth`.
        const snapshot = IDENTITY_BIN ? undefined : () => prepareSnapshot(root, { folder, adopt });
        await initialiseCluster({
          dataDir: placement.dataDir,
          passwords: secrets.passwords,
          placement,
          adopt,
          snapshot,
        });
      },
    },
    {
      kind: "task",
      name: "bootstrap",
      dependsOn: ["postgres"],
      run: () => bootstrapCluster({ port: ports.postgres, passwords: secrets.passwords }),
    },
    {
      kind: "task",
      name: "migrations",
      // The identity backend creates its own schema, which our migrations refer to.
      dependsOn: ["bootstrap", "identity"],
      run: async () => {
        const {
          releases: [first],
        } = await readManifest(root);
        const applied = await applyMigrations({
          dbUrl,
          directory: path.join(root, "supabase/migrations"),
          firstRelease: Object.keys(first?.migrations ?? {}),
        });
        if (applied.length > 0) log.print("migrations", `applied ${applied.length}, up to ${applied.at(-1)}`);
        await letGatewayIn(dbUrl, secrets.passwords.gateway);
      },
    },
    {
      kind: "task",
      name: "seed",
      dependsOn: ["migrations"],
      run: async () => {
        const files = ["supabase/seed.sql", ...(testModels ? ["supabase/test-models.sql"] : [])];
        for (const file of files) await applySqlFile({ dbUrl, file: path.join(root, file) });
      },
    },
    {
      kind: "task",
      name: "demo",
      dependsOn: ["gateway", "seed"],
      run: async () =>
        onDemo(
          await seedDemo({ dataDir, supabaseUrl: addresses.supabase, satelliteUrl: addresses.notes, dbUrl, secrets }),
        ),
    },
    buildTask(root, log),
  ];
}

/** Sets the password of the functions' login role, which the migrations create without one. */
async function letGatewayIn(dbUrl: string, password: string): Promise<void> {
  await withDatabase(dbUrl, (client) => client.query(`alter role gateway password ${client.escapeLiteral(password)}`));
}
