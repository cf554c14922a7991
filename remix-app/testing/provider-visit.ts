/** The answers to give on the demo provider's page. */
export interface ProviderAnswer {
  email: string;
  /** Whether the provider reports the email as verified. */
  verified?: boolean;
  /** Cancels instead of signing in. */
  cancel?: boolean;
}

/**
 * Completes a sign-in on a provider's page with the given answer.
 * @param address the provider's URL, where our server sent the browser
 * @returns the URL on our site to which the identity backend finally redirects. This function does not request it.
 */
export async function visitProvider(
  address: string,
  { ourOrigin, email, verified = true, cancel = false }: ProviderAnswer & { ourOrigin: string },
): Promise<string> {
  const cookies = new Map<string, string>();
  const fields = { email, ...(verified ? { verified: "on" } : {}), ...(cancel ? { cancel: "yes" } : {}) };
  let url = new URL(address);
  let form: URLSearchParams | null = null;
  for (let hop = 0; hop < 12; hop += 1) {
    if (url.origin === ourOrigin) return url.href;
    const response: Response = await fetch(url, {
      redirect: "manual",
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") },
      ...(form ? { method: "POST", body: form } : {}),
    });
    for (const header of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(header) ?? [];
      cookies.set(name, value);
    }
    const location = response.headers.get("location");
    const text = await response.text();
    form = null;
    if (location) url = new URL(location, url);
    else if (text.includes('name="email"')) form = new URLSearchParams(fields);
    else if (text.includes('<input type="hidden" name="state"')) [url, form] = postedOn(text);
    else throw new Error(`${url.origin}${url.pathname} answered ${response.status}: ${text.slice(0, 300)}`);
  }
  throw new Error("the provider leads round in circles");
}

/** Returns the target and the fields of a page that posts a form automatically, as Apple's does. */
function postedOn(page: string): [URL, URLSearchParams] {
  const action = /<form method="post" action="([^"]+)"/.exec(page)?.[1] ?? "";
  const fields = [...page.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
  const values = fields.map(([, name = "", value = ""]): [string, string] => [name, value.replaceAll("&quot;", '"')]);
  return [new URL(action), new URLSearchParams(values)];
}
