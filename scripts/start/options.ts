import { parseArgs } from "node:util";
import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import { defaultPorts, type PortName, type Ports } from "@gatehousehq/local-stack/ports";

export const usage = `npm start -- [options]

  --json              print the stack's description as JSON, and nothing else, on standard output
  --dev               the web server and the functions reload what changes
  --supabase          with --dev: use what \`supabase start\` runs, as \`supabase status\` tells it
  --embedded          the embedded stack in any case, without the settings of .env and the environment
  --data-dir DIR      where data, secrets and logs are kept (default .local)
  --ports auto        any free ports instead of the known ones
  --port-offset N     the known ports plus N
  --database-via PORT the services find Postgres at this port, where somebody passes on what they say;
                      with --without postgres, the stack sets up the Postgres there instead of its own
  --scale             two web servers and three of the functions behind a balancer, and PgBouncer before Postgres
  --test-models       also the models that fail on purpose (supabase/test-models.sql); they stay until \`npm run reset\`
  --without A,B       leave services out (${Object.keys(defaultPorts).join(", ")})
  --verbose           every line of every service on the terminal
  --help              this text`;

export type Options = {
  json: boolean;
  dev: boolean;
  supabase: boolean;
  embedded: boolean;
  dataDir: string;
  ports: Ports;
  databaseVia: number | undefined;
  scale: boolean;
  testModels: boolean;
  without: ReadonlySet<string>;
  verbose: boolean;
  help: boolean;
};

/**
 * Parses the command line. Also recognizes `npm start --json`: npm consumes the option, passes it to us in the
 * environment, and then prints its banner on standard error.
 * @throws StackError that says what is wrong with the command line
 */
export function readOptions(args: string[], npmConfig: NodeJS.ProcessEnv = process.env): Options {
  const values = parse(args);
  if (values.supabase && !values.dev) throw new StackError("--supabase goes with --dev: npm run dev -- --supabase");
  if (values.scale && (values.dev || values.supabase)) throw new StackError("--scale goes without --dev");
  if (values.ports !== undefined && values.ports !== "auto") throw new StackError("--ports knows one value: auto");
  const offset = Number(values["port-offset"] ?? 0);
  if (!Number.isInteger(offset) || offset < -2_000 || offset > 11_000) {
    throw new StackError("--port-offset must be a whole number between -2000 and 11000");
  }
  const databaseVia = values["database-via"] === undefined ? undefined : Number(values["database-via"]);
  if (databaseVia !== undefined && !(Number.isInteger(databaseVia) && databaseVia > 0 && databaseVia <= 65_535)) {
    throw new StackError("--database-via takes a port");
  }
  const without = new Set((values.without ?? []).flatMap((names) => names.split(",")).map((name) => name.trim()));
  const unknown = [...without].find((name) => !(name in defaultPorts));
  if (unknown !== undefined) throw new StackError(`--without: there is no service "${unknown}"`);
  const ports = Object.fromEntries(
    Object.entries(defaultPorts).map(([name, port]) => [name, values.ports === "auto" ? 0 : port + offset]),
  ) as Record<PortName, number>;
  return {
    json: values.json ?? npmConfig.npm_config_json === "true",
    dev: values.dev ?? false,
    supabase: values.supabase ?? false,
    embedded: values.embedded ?? false,
    dataDir: values["data-dir"] ?? ".local",
    ports,
    databaseVia,
    scale: values.scale ?? false,
    testModels: values["test-models"] ?? false,
    without,
    verbose: values.verbose ?? false,
    help: values.help ?? false,
  };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        json: { type: "boolean" },
        dev: { type: "boolean" },
        supabase: { type: "boolean" },
        embedded: { type: "boolean" },
        "data-dir": { type: "string" },
        ports: { type: "string" },
        "port-offset": { type: "string" },
        "database-via": { type: "string" },
        scale: { type: "boolean" },
        "test-models": { type: "boolean" },
        without: { type: "string", multiple: true },
        verbose: { type: "boolean" },
        help: { type: "boolean" },
      },
    }).values;
  } catch (error) {
    throw new StackError(`${messageOf(error)}\n\n${usage}`);
  }
}
