interface Sent {
  page: string;
  form: string;
  held: readonly (string | boolean)[];
}

/** The last form sent, until it gets a response. Kept only in this document's memory. */
let sent: Sent | null = null;
let failed = false;

/** Remembers the values of a form being sent, except passwords, until there is a response. */
export function keepSent(form: HTMLFormElement): void {
  const held = fieldsOf(form).map((field) => (isTicked(field) ? field.checked : field.value));
  sent = { page: location.pathname, form: nameOf(form), held };
  failed = false;
}

/** Forgets the values once there is a response. */
export function forgetSent(): void {
  sent = null;
}

/** Records that the request failed and an error page replaced the form. */
export function failSent(): void {
  failed = sent !== null;
}

/** Forgets the values when the form is removed, unless the request failed and the response has replaced the form. */
export function forgetAnswered(): void {
  if (!failed) sent = null;
}

/**
 * Restores the values of an unanswered form, once.
 * @returns whether this form is the unanswered one
 */
export function fillUnanswered(form: HTMLFormElement): boolean {
  if (!sent || !failed) return false;
  const { page, form: name, held } = sent;
  if (page !== location.pathname) sent = null;
  if (sent === null || name !== nameOf(form)) return false;
  sent = null;
  for (const [index, field] of fieldsOf(form).entries()) {
    const value = held[index];
    if (typeof value === "boolean" && isTicked(field)) field.checked = value;
    if (typeof value === "string" && !isTicked(field)) field.value = value;
  }
  return true;
}

type Field = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

/** Returns the fields that people fill in, in order. */
function fieldsOf(form: HTMLFormElement): Field[] {
  return [...form.querySelectorAll<Field>("input:not([type=hidden], [type=password], [type=file]), select, textarea")];
}

function isTicked(field: Field): field is HTMLInputElement {
  return field instanceof HTMLInputElement && (field.type === "checkbox" || field.type === "radio");
}

/**
 * Returns a name that identifies a form. The name contains the hidden fields with their values, such as the account,
 * and the names of the fields that people fill in.
 */
function nameOf(form: HTMLFormElement): string {
  const own = [...form.querySelectorAll<HTMLInputElement>("input[type=hidden]")];
  return JSON.stringify([own.map(({ name, value }) => [name, value]), fieldsOf(form).map(({ name }) => name)]);
}
