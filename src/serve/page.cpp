#include "serve/page.h"

namespace ravine {

const std::string_view kPage = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Ravine</title><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'">
<style>
body { font: 16px/1.5 sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; }
#talk div { white-space: pre-wrap; margin: .5rem 0; padding: .5rem .8rem; border-radius: .5rem; }
.user { background: #dde7f3; color: #111; } .assistant { background: #eee; color: #111; } .error { background: #f6d5d5; color: #600; }
form { display: flex; gap: .5rem; } textarea { flex: 1; font: inherit; } input { font: inherit; }
</style></head><body>
<h1>Ravine</h1>
<p><label>Model <select id="model"></select></label> <label>API key <input id="key" type="password" autocomplete="off"></label>
<button id="again">Begin again</button></p>
<div id="talk" aria-live="polite"></div>
<form id="ask"><textarea id="text" rows="3" aria-label="Your turn"></textarea><button id="send">Send</button><button id="stop" type="button" disabled>Stop</button></form>
<script>
const $ = id => document.getElementById(id);
let messages = [], busy = null;
const headers = () => Object.assign({'Content-Type': 'application/json'}, $('key').value ? {Authorization: 'Bearer ' + $('key').value} : {});
function show(role, text) { const d = document.createElement('div'); d.className = role; d.textContent = text; $('talk').append(d); d.scrollIntoView(); return d; }
async function models() {
  try {
    const a = await (await fetch('/v1/models', {headers: headers()})).json();
    $('model').replaceChildren(...(a.data || []).map(m => new Option(m.id, m.id)));
  } catch (e) { show('error', String(e)); }
}
async function ask(text) {
  messages.push({role: 'user', content: text}); show('user', text);
  const box = show('assistant', ''); let said = '', rest = '';
  busy = new AbortController(); $('stop').disabled = false; $('send').disabled = true;
  try {
    const a = await fetch('/v1/chat/completions', {method: 'POST', headers: headers(), signal: busy.signal, body: JSON.stringify({model: $('model').value || undefined, messages, stream: true})});
    if (!a.ok) throw new Error((await a.json()).error.message);
    const reader = a.body.getReader(), decoder = new TextDecoder();
    for (let r; !(r = await reader.read()).done;) {
      const events = (rest + decoder.decode(r.value, {stream: true})).split('\n\n'); rest = events.pop();
      for (const e of events) {
        if (!e.startsWith('data: ') || e === 'data: [DONE]') continue;
        const o = JSON.parse(e.slice(6));
        if (o.error) throw new Error(o.error.message);
        for (const c of o.choices) said += (c.delta && c.delta.content) || '';
        box.textContent = said;
      }
    }
  } catch (e) { if (e.name !== 'AbortError') show('error', e.message); }
  if (said) messages.push({role: 'assistant', content: said}); else messages.pop();
  busy = null; $('stop').disabled = true; $('send').disabled = false; $('text').focus();
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
