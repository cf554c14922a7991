/** The id of the platform's book, and of the app of its records, which belong to no app. */
export const platformBookId = "00000000-0000-0000-0000-000000000000";

/** What the audit log records about a change to the platform's book. */
export interface AuditedChange {
  reason: string;
  requestId: string;
  ip: string;
}
