import { host } from "../../ports.ts";
import { initdbOptions, serverSettings } from "../postgres/cluster.ts";

type Login = { username: string; password: string };

/** A node: a Patroni and the Postgres that it runs. */
export type PatroniNode = { name: string; dataDir: string; postgresPort: number; restPort: number };

/**
 * Returns Patroni's settings of a node (patroni.readthedocs.io, "YAML Configuration Settings"). JSON is valid YAML.
 * @param options.home a folder that all nodes may write to
 */
export function patroniSettings(
  { name, dataDir, postgresPort, restPort }: PatroniNode,
  options: { home: string; etcdPort: number; postgresFolder: string; superuser: Login; replication: Login },
): string {
  const { home, etcdPort, postgresFolder, superuser, replication } = options;
  const [rest, postgres] = [`${host}:${restPort}`, `${host}:${postgresPort}`];
  return JSON.stringify({
    scope: "gatehouse",
    name,
    restapi: { listen: rest, connect_address: rest },
    etcd3: { host: `${host}:${etcdPort}` },
    bootstrap: {
      dcs: {
        // The shortest time to live that Patroni allows. A node that is gone is replaced after it.
        ttl: 20,
        loop_wait: 5,
        retry_timeout: 5,
        // A commit is answered once the standby has it too, and only that standby is promoted.
        synchronous_mode: true,
        // Promotes the standby instead of restarting a Postgres that has crashed.
        primary_start_timeout: 0,
        postgresql: { use_pg_rewind: true, use_slots: true, parameters: serverSettings },
      },
      initdb: [...Object.entries(initdbOptions).map(([option, value]) => ({ [option]: value })), "data-checksums"],
    },
    postgresql: {
      listen: postgres,
      connect_address: postgres,
      data_dir: dataDir,
      bin_dir: postgresFolder,
      pgpass: `${home}/${name}.pgpass`,
      authentication: { superuser, replication },
      parameters: { unix_socket_directories: home },
      pg_hba: ["all", "replication"].map((database) => `host ${database} all ${host}/32 scram-sha-256`),
    },
  });
}

/**
 * Returns HAProxy's settings. It leads to the node whose Patroni says that it is the primary, and closes the connections
 * to a node that no longer is, since its Postgres would only refuse their writes.
 */
export function haproxySettings(nodes: readonly PatroniNode[], port: number): string {
  return [
    "global",
    "  maxconn 1000",
    "defaults",
    "  mode tcp",
    "  timeout connect 1s",
    "  timeout client 1h",
    "  timeout server 1h",
    "  timeout check 1s",
    "listen primary",
    `  bind ${host}:${port}`,
    "  option httpchk OPTIONS /primary",
    "  http-check expect status 200",
    "  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions",
    ...nodes.map(
      ({ name, postgresPort, restPort }) => `  server ${name} ${host}:${postgresPort} check port ${restPort}`,
    ),
    "",
  ].join("\n");
}
