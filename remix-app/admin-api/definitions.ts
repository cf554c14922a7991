import type { ActDefinition, ChangeDefinition, ReadDefinition } from "./define.ts";
import { accountAccessChanges, accountAccessReads } from "./operations/account-access.ts";
import { accountChanges, accountReads } from "./operations/accounts.ts";
import { appChanges, appReads } from "./operations/apps.ts";
import { bookMonthActs, bookMonthReads } from "./operations/book-months.ts";
import { bookActs, bookReads } from "./operations/books.ts";
import { modelSetupActs, modelSetupChanges, modelSetupReads } from "./operations/model-setup.ts";
import { modelChanges, modelReads } from "./operations/models.ts";
import { overviewActs, overviewReads } from "./operations/overview.ts";
import { planChanges, planReads } from "./operations/plans.ts";
import { platformReads, workspaceSettingChanges } from "./operations/platform.ts";
import { priceChanges, priceReads } from "./operations/prices.ts";
import { providerChanges, providerReads } from "./operations/providers.ts";
import { securityActs, securityReads } from "./operations/security.ts";
import { serviceAccountActs, serviceAccountReads } from "./operations/service-accounts.ts";
import { workspaceChanges, workspaceReads } from "./operations/workspaces.ts";
import type { AdminActId, AdminChangeId, AdminReadId } from "./table.ts";

/** What each operation of the table that reads does. */
export const readOperations: Record<AdminReadId, ReadDefinition> = {
  ...overviewReads,
  ...accountReads,
  ...accountAccessReads,
  ...securityReads,
  ...workspaceReads,
  ...platformReads,
  ...planReads,
  ...modelReads,
  ...modelSetupReads,
  ...priceReads,
  ...providerReads,
  ...appReads,
  ...serviceAccountReads,
  ...bookReads,
  ...bookMonthReads,
};

/** What each operation of the table that makes a change does. */
export const changeOperations: Record<AdminChangeId, ChangeDefinition> = {
  ...accountChanges,
  ...accountAccessChanges,
  ...workspaceChanges,
  ...workspaceSettingChanges,
  ...planChanges,
  ...modelChanges,
  ...modelSetupChanges,
  ...priceChanges,
  ...providerChanges,
  ...appChanges,
};

/** What each operation of the table that takes no idempotency key does. */
export const actOperations: Record<AdminActId, ActDefinition> = {
  ...overviewActs,
  ...securityActs,
  ...modelSetupActs,
  ...serviceAccountActs,
  ...bookActs,
  ...bookMonthActs,
};
