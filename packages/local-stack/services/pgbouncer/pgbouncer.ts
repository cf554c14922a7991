import { chownSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Placement } from "../postgres/placement.ts";

/** The maximum number of server connections for each role. Further clients wait. */
const poolSize = 12;

/**
 * Writes the settings of a pooler in transaction mode into the cluster's folder.
 * @returns the arguments to start the pooler with, and the user it runs as, since PgBouncer refuses to run as root
 */
export function configurePgBouncer(options: {
  port: number;
  postgresPort: number;
  passwords: Record<string, string>;
  placement: Placement;
}): { args: string[]; uid?: number; gid?: number } {
  const { port, postgresPort, passwords, placement } = options;
  const folder = path.dirname(placement.dataDir);
  const [settings, users] = ["pgbouncer.ini", "pgbouncer-users.txt"].map((name) => path.join(folder, name));
  write(
    users,
    Object.entries(passwords).map(([role, password]) => `${quoted(role)} ${quoted(password)}`),
  );
  write(settings, [
    "[databases]",
    `* = host=127.0.0.1 port=${postgresPort}`,
    "[pgbouncer]",
    "listen_addr = 127.0.0.1",
    `listen_port = ${port}`,
    "unix_socket_dir =",
    "pool_mode = transaction",
    "auth_type = scram-sha-256",
    `auth_file = ${users}`,
    `default_pool_size = ${poolSize}`,
    "max_client_conn = 500",
    // Supabase Auth sends its search_path when it connects. The pooler ignores it, since the role has the same setting.
    "ignore_startup_parameters = extra_float_digits,search_path",
    // Retries every second, so that PgBouncer recovers within the allowed time after Postgres is back.
    "server_login_retry = 1",
    "log_connections = 0",
    "log_disconnections = 0",
  ]);
  return { args: ["-q", settings ?? ""], ...placement.user };

  function write(file = "", lines: readonly string[]): void {
    writeFileSync(file, `${lines.join("\n")}\n`, { mode: 0o600 });
    if (placement.user) chownSync(file, placement.user.uid, placement.user.gid);
  }
}

const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
