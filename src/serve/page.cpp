#include "serve/page.h"

namespace ravine {

const std::string_view kPage = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Ravine</title><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'">
<style>
body { font: 16px/1.5 sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; }
#talk div { white-space: pre-wrap; margin: .5rem 0; padding: .5rem .8rem; border-radius: .5rem; }
.user { background: #dde7f3; color: #111; } .assistant { background: #eee; color: #111; } .error { background: #f6d5d5; color: #600; } .note { color: #666; }
form { display: flex; gap: .5rem; } textarea { flex: 1; font: inherit; } input { font: inherit; }
</style></head><body>
<h1>Ravine</h1>
<p><label>Model <select id="model"></select></label> <label>API key <input id="key" type="password" autocomplete="off"></label>
<button id="again">Begin again</button></p>
<div id="talk" aria-live="polite"></div>
<form id="ask"><textarea id="text" rows="3" aria-label="Your turn"></textarea><button id="send">Send</button><button id="stop" type="button" disabled>Stop</button></form>
<script>
const $ = id => document.getElementById(id);
let messages = [], busy = null, positions = {};
const headers = () => Object.assign({'Content-Type': 'application/json'}, $('key').value ? {Authorization: 'Bearer ' + $('key').value} : {});
function show(role, text) { const d = document.createElement('div'); d.className = role; d.textContent = text; $('talk').append(d); d.scrollIntoView(); return d; }
// The answer, or an error with the server's words.
async function fetched(path, options) {
  const a = await fetch(path, Object.assign({headers: headers()}, options));
  if (a.ok) return a;
  let error = {message: 'status ' + a.status};
  try { error = (await a.json()).error; } catch (e) { /* no words */ }
  if (a.status === 401) { error.message = $('key').value ? 'The API key is wrong.' : 'This server wants its API key: write it above.'; $('key').focus(); }
  throw Object.assign(new Error(error.message), {code: error.code});
}
async function models() {
  try {
    const a = await (await fetched('/v1/models')).json();
    for (const m of a.data) positions[m.id] = m.max_model_len;
    $('model').replaceChildren(...a.data.map(m => new Option(m.id, m.id)));
  } catch (e) { show('error', e.message); }
}
// A conversation that no longer fits loses its oldest turns, each with its answer. A quarter of the positions is for the answer.
async function asked() {
  const model = $('model').value || undefined, most = positions[model];
  for (let left = 0; ; ++left) {
    try {
      const body = {model, messages, stream: true};
      if (most) body.max_tokens = Math.max(1, Math.floor(most / 4));
      const a = await fetched('/v1/chat/completions', {method: 'POST', signal: busy.signal, body: JSON.stringify(body)});
      if (left) show('note', 'The conversation is longer than the model reads: its ' + (left === 1 ? 'oldest turn is' : 'oldest ' + left + ' turns are') + ' left out.');
      return a;
    } catch (e) {
      const next = messages.findIndex((m, i) => i > 0 && m.role === 'user');
      if (e.code !== 'context_length_exceeded' || next < 0) throw e;
      messages.splice(0, next);
    }
  }
}
async function ask(text) {
  messages.push({role: 'user', content: text});
  const mine = show('user', text);
  let said = '', rest = '', box = null, failed = false;
  busy = new AbortController(); $('stop').disabled = false; $('send').disabled = true;
  try {
    const reader = (await asked()).body.getReader(), decoder = new TextDecoder();
    box = show('assistant', '');
    for (let r; !(r = await reader.read()).done;) {
      const events = (rest + decoder.decode(r.value, {stream: true})).split('\n\n'); rest = events.pop();
      for (const e of events) {
        if (!e.startsWith('data: ') || e === 'data: [DONE]') continue;
        const o = JSON.parse(e.slice(6));
        if (o.error) throw new Error(o.error.message);
        for (const c of o.choices) {
          said += (c.delta && c.delta.content) || '';
          if (c.finish_reason === 'length') show('note', 'The answer is cut: it has all the room there is for one.');
        }
        box.textContent = said;
      }
    }
  } catch (e) { failed = true; if (e.name !== 'AbortError') show('error', e.message); }
  if (said) messages.push({role: 'assistant', content: said});
  else if (failed) {  // the question comes back, to be sent again
    messages.pop(); mine.remove(); if (box) box.remove();
    if (!$('text').value) $('text').value = text;
  } else messages.push({role: 'assistant', content: ''});
  busy = null; $('stop').disabled = true; $('send').disabled = false; if (document.activeElement !== $('key')) $('text').focus();
}
$('ask').onsubmit = e => { e.preventDefault(); const t = $('text').value.trim(); if (t && !busy) { $('text').value = ''; ask(t); } };
$('text').onkeydown = e => { if (e.key === 'Enter' && !e.shiftKey) { e.preventDefault(); $('ask').requestSubmit(); } };
$('stop').onclick = () => busy && busy.abort();
$('again').onclick = () => { messages = []; $('talk').replaceChildren(); };
$('key').onchange = models;
models();
</script></body></html>
)page";

}  // namespace ravine
