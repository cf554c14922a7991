import { existsSync } from "node:fs";
import path from "node:path";
import { findProgram } from "../find-program.ts";
import { majorVersion } from "../postgres/placement.ts";

/** The programs of a Postgres with a standby. */
export type PatroniPrograms = { patroni: string; etcd: string; haproxy: string; postgresFolder: string };

/** Debian's packages, by program. */
const packages = { patroni: "patroni", etcd: "etcd-server", haproxy: "haproxy" } as const;
/** What Patroni runs of Postgres. The npm package lacks all but the first two. */
const postgresPrograms = ["postgres", "initdb", "pg_basebackup", "pg_controldata", "pg_isready", "pg_rewind"];

/** Finds the programs. @returns what is missing and where it comes from, one sentence each, if not all are there */
export function findPatroniPrograms(
  environment: NodeJS.ProcessEnv = process.env,
): { programs: PatroniPrograms } | { missing: string[] } {
  const { PATH: searchPath = "", POSTGRES_BIN: postgresFolder = "" } = environment;
  const [patroni, etcd, haproxy] = (["patroni", "etcd", "haproxy"] as const).map((name) =>
    findProgram(name, searchPath),
  );
  const lacking = postgresPrograms.filter((name) => !existsSync(path.join(postgresFolder, name)));
  const missing = Object.entries({ patroni, etcd, haproxy })
    .filter(([, found]) => found === undefined)
    .map(
      ([name]) => `${name} is not on the PATH. Install Debian's package ${packages[name as keyof typeof packages]}.`,
    );
  if (postgresFolder === "" || lacking.length > 0) {
    const fault = postgresFolder === "" ? "POSTGRES_BIN is not set" : `${postgresFolder} lacks ${lacking.join(", ")}`;
    missing.push(
      `${fault}. Install Postgres ${majorVersion} with its client programs (apt.postgresql.org: postgresql-${majorVersion}), and set POSTGRES_BIN to the folder of its programs.`,
    );
  }
  if (!patroni || !etcd || !haproxy || missing.length > 0) return { missing };
  return { programs: { patroni, etcd, haproxy, postgresFolder } };
}
