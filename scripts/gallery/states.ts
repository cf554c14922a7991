import type { State } from "./define-states.ts";
import { accountStates } from "./scenes/account.ts";
import { bookDayStates } from "./scenes/book-days.ts";
import { bookStates } from "./scenes/books.ts";
import { consoleStates } from "./scenes/console.ts";
import { consoleAccountStates } from "./scenes/console-accounts.ts";
import { consoleAppStates } from "./scenes/console-apps.ts";
import { consoleAuditStates } from "./scenes/console-audit.ts";
import { consoleModelStates } from "./scenes/console-models.ts";
import { consoleOverviewStates } from "./scenes/console-overview.ts";
import { serviceAccountStates } from "./scenes/console-service-accounts.ts";
import { consoleSpendingStates } from "./scenes/console-spending.ts";
import { emailStates } from "./scenes/emails.ts";
import { enteredStates } from "./scenes/entered.ts";
import { openidStates } from "./scenes/openid.ts";
import { playgroundStates } from "./scenes/playground.ts";
import { recoveryStates } from "./scenes/recovery.ts";
import { referenceStates, refusalStates } from "./scenes/reference.ts";
import { satelliteStates } from "./scenes/satellite.ts";
import { secondStepStates } from "./scenes/second-step.ts";
import { signInStates } from "./scenes/sign-in.ts";
import { studioStates } from "./scenes/studio.ts";
import { costStates } from "./scenes/studio-costs.ts";
import { workspaceStates } from "./scenes/workspace.ts";

/** Every page in its states. */
export const states: readonly State[] = [
  ...signInStates,
  ...recoveryStates,
  ...enteredStates,
  ...openidStates,
  ...secondStepStates,
  ...accountStates,
  ...workspaceStates,
  ...studioStates,
  ...costStates,
  ...playgroundStates,
  ...consoleOverviewStates,
  ...consoleStates,
  ...consoleModelStates,
  ...consoleAccountStates,
  ...consoleAppStates,
  ...serviceAccountStates,
  ...consoleAuditStates,
  ...consoleSpendingStates,
  ...bookStates,
  ...bookDayStates,
  ...satelliteStates,
  ...referenceStates,
  ...emailStates,
  ...refusalStates,
];

/** Page routes that are not in the gallery, and why. */
export const leftOut: Readonly<Record<string, string>> = {};
