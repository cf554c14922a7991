/**
 * Places a refusal where it belongs. A 400 is about the input, so it goes to the field; anything else, such as a limit
 * or an outage, goes to the form.
 */
export function errorsAt(
  field: string,
  { status, message }: { status: number; message: string },
): { fieldErrors: Record<string, string[]> } | { formErrors: string[] } {
  return status === 400 ? { fieldErrors: { [field]: [message] } } : { formErrors: [message] };
}
