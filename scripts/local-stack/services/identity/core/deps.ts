import type { Config } from "../config/config.ts";
import type { Database } from "../db.ts";
import type { Mailer } from "./mailer.ts";
import type { Discover } from "./oauth/discovery.ts";
import type { Random } from "./random.ts";
import type { RateWindow } from "./rate-window.ts";
import type { TokenKeys } from "./token-keys.ts";

/** What every operation is given. Time and randomness are among it, so that tests need not wait or guess. */
export type Deps = {
  config: Config;
  db: Database;
  keys: TokenKeys;
  mailer: Mailer;
  /** All mails of this server, whoever they go to. */
  mailLimit: RateWindow;
  /** Identity providers in OpenID's shape. */
  discover: Discover;
  clock: () => Date;
  random: Random;
  /** A line for the operator. Never a password, a code, a token or a key. */
  log: (line: string) => void;
};

/** Where a request came from, as sessions and challenges record it. */
export type Caller = { ip: string; userAgent: string };
