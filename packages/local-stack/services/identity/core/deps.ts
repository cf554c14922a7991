import type { Config } from "../config/config.ts";
import type { Database } from "../db.ts";
import type { Mailer } from "./mailer.ts";
import type { Discover } from "./oauth/discovery.ts";
import type { Random } from "./random.ts";
import type { RateWindow } from "./rate-window.ts";
import type { TokenKeys } from "./token-keys.ts";

/** The dependencies of every operation. They include time and randomness, so that tests need neither wait nor guess. */
export type Deps = {
  config: Config;
  db: Database;
  keys: TokenKeys;
  mailer: Mailer;
  /** Limits all emails of this server together. */
  mailLimit: RateWindow;
  discover: Discover;
  clock: () => Date;
  random: Random;
  /** Writes a line for the operator. Must never contain a password, a code, a token or a key. */
  log: (line: string) => void;
};

/** The IP address and the user agent of a request, which are recorded in sessions and challenges. */
export type Caller = { ip: string; userAgent: string };
