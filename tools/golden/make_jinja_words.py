"""Makes tests/golden/jinja_words.json: every filter, test, method and operator of templates with arguments that tell its branches apart, and what Jinja as Transformers
sets it up makes of them; null where Jinja refuses.

  python tools/golden/make_jinja_words.py tests/golden         (needs transformers, jinja2)
"""
import json, os, sys
from transformers.utils.chat_template_utils import _compile_jinja_template

LIST = "[3, 1, 2]"
EXPRESSIONS = r"""
'ΟΔΥΣΣΕΥΣ ΣΑΣ, Σ AΣ.'.lower() ~ ('ΑΣ' | lower) ~ ('Α\u0301Σ\u0301Β' | lower)
'ΑΣ ΒΣ'.capitalize() ~ 'ΑΣ ΒΣ'.title() ~ 'ΑΣ βς'.swapcase()
'ΑΣ αΣ ΒΒΣ' | title ~ ('ΑΣ ΒΣ' | capitalize)
'\N{BULLET}\N{latin small letter e with acute}'
'\N{NO SUCH CHARACTER}'
'\Nx'
'Straße ΑΣς ﬁ İ'.casefold()
'a\tbc\td\n\te\té\t|'.expandtabs()
'a\tb'.expandtabs(4) ~ 'a\tb'.expandtabs(0) ~ 'a\tb'.expandtabs(-1) ~ 'a\tb'.expandtabs(tabsize=1)
[{'a': 2, 'b': 'x'}, {'a': 1, 'b': 'Y'}, {'a': 1, 'b': 'x'}] | sort(attribute='a,b')
[{'a': 2, 'b': 'x'}, {'a': 1, 'b': 'Y'}, {'a': 1, 'b': 'x'}] | sort(attribute='b,a', reverse=true)
[{'a': 1, 'b': 'Y'}, {'a': 1, 'b': 'x'}] | sort(attribute='a,b', case_sensitive=true)
[[2, 1], [1, 3], [1, 2]] | sort(attribute='0,1')
[1, 0, 999, 999.9, 1000, 1000000, 1234567, 1e9, 5e13, 1e24, 1e27, 1e30] | map('filesizeformat') | join(' ')
[1, 1023, 1024, 1048576, 1234567, 2e30] | map('filesizeformat', true) | join(' ')
'1500' | filesizeformat
-5 | filesizeformat
'x' | filesizeformat
' a b '.strip() ~ '|'
' a b '.lstrip() ~ '|'
' a b '.rstrip() ~ '|'
'xyaxy'.strip('xy')
'xyaxy'.lstrip('yx')
'xyaxy'.rstrip('yx')
'éaé'.strip('é')
'\u00a0a\u3000'.strip() ~ '|'
' a '.strip(none) ~ '|'
'a1b2c'.split('1')
'a,b,,c'.split(',')
'a,b,,c'.split(',', 2)
'a,b,,c'.split(',', 0)
'a,b,,c'.rsplit(',', 2)
'a,b,,c'.rsplit(',', maxsplit=1)
'a--b--c'.rsplit('--', 1)
'aaa'.split('aa')
'aaa'.rsplit('aa')
' a  b c '.split(none, 1)
' a  b c '.split(maxsplit=1)
' a  b c '.split(none, 0)
' a  b c '.rsplit(none, 1)
' a  b c '.rsplit(none, 0)
' a  b c '.rsplit()
'  '.split()
''.split()
''.split(',')
'a'.split('')
'a\nb\r\nc\rd\x0be\x0cf'.splitlines()
'a\nb\r\nc'.splitlines(true)
'a\n\nb\n'.splitlines()
'\n'.splitlines(true)
''.splitlines()
'aBc'.upper() ~ 'AbC'.lower()
'straße'.upper()
'ÀÉ'.lower()
'hello wORLD it\'s (a) b-c'.title()
'hELLO World'.capitalize()
'hello wORLD-x (y) [z]' | title
'a\tb' | title
'hELLO' | capitalize
'abc'.startswith('b')
'abc'.startswith('')
'abc'.startswith(('x', 'a'))
'abc'.startswith(())
'abc'.endswith('bc')
'abc'.endswith(('b', 'x'))
'abcabc'.removeprefix('abc')
'abc'.removeprefix('bc')
'abcabc'.removesuffix('abc')
'abc'.removesuffix('ab')
'aaaa'.replace('aa', 'b')
'aaaa'.replace('a', 'b', 2)
'aaaa'.replace('a', 'b', 0)
'aaaa'.replace('a', 'b', -1)
'aaaa' | replace('a', 'bb', 3)
'a.b' | replace('.', '')
','.join(['a', 'b'])
','.join([])
','.join('abc')
'abcabc'.find('c')
'éabc'.find('c')
'abcabc'.find('x')
'abcabc'.rfind('b')
'ééa'.rfind('a')
'abc'.index('c')
'abcabc'.rindex('c')
'abc'.index('x')
'aXbX'.count('X')
'aaaa'.count('aa')
'abc'.count('')
'é'.count('')
'12'.isdigit()
'1a'.isdigit()
''.isdigit()
' \t'.isspace()
' a'.isspace()
''.isspace()
'aé'.isalpha()
'a1'.isalpha()
''.isalpha()
'a1'.isalnum()
'a_'.isalnum()
'AB1'.isupper()
'Ab'.isupper()
'12'.isupper()
'ab1'.islower()
'Ab'.islower()
''.islower()
{'b': 1, 'a': 2}.items() | list
{'b': 1, 'a': 2}.keys() | list
{'b': 1, 'a': 2}.values() | list
{'b': 1}.get('b')
{'b': 1}.get('c')
{'b': 1}.get('c', 5)
{'b': 1}.copy()
{'b': 1}.update({'c': 2})
{'b': 1}.pop('b')
{'get': 7}['get']
{'keys': 7}.x is defined
[3, 1, 3].index(1)
[3, 1, 3].index(9)
[3, 1, 3].count(3)
[3, 1, 3].count(9)
[1].append(2)
[1].pop()
'abc'[0]
'abc'[2]
'abc'[3]
'abc'[-1]
'abc'[-3]
'abc'[-4]
'éab'[1]
'aéb'[-2]
[1, 2, 3][0]
[1, 2, 3][3]
[1, 2, 3][-3]
[1, 2, 3][-4]
[1, 2, 3][1.0]
{'a': 1}['b']
{'a': 1}['b']['c']
{1: 'x'}[1]
{1: 'x'}[1.0]
{true: 'x'}[1]
{'a': {'b': 2}}.a.b
'abcdef'[1:4]
'abcdef'[-4:-1]
'abcdef'[4:1]
'abcdef'[::2]
'abcdef'[1::2]
'abcdef'[::-1]
'abcdef'[4:1:-1]
'abcdef'[-1:-4:-1]
'abcdef'[:2:-1]
'abcdef'[10:]
'abcdef'[-10:2]
'abcdef'[:-10]
'abcdef'[-10::-1]
'abcdef'[10::-2]
'äbcdéf'[1:-1]
'äbcdéf'[::-2]
'abc'[::0]
[1, 2, 3, 4, 5][1:-1]
[1, 2, 3, 4, 5][::2]
[1, 2, 3, 4, 5][::-2]
[1, 2, 3, 4, 5][3:0:-1]
[1, 2, 3, 4, 5][-2:]
[1, 2, 3, 4, 5][2:2]
(1, 2, 3)[::-1]
(1, 2, 3)[:1]
1 + 2
1 + 2.5
'a' + 'b'
[1] + [2, 3]
(1,) + (2,)
[1] + (2,)
'a' + 1
true + 1
5 - 7
5 - 0.5
'a' - 'b'
3 * 4
3 * 0.5
'ab' * 3
3 * 'ab'
'ab' * 0
'ab' * -1
[1, 2] * 2
2 * [1]
(1,) * 3
[1] * -1
true * 3
7 / 2
8 / 2
-7 / 2
1 / 0
7 // 2
-7 // 2
7 // -2
-8 // 2
-7.5 // 2
1 // 0
7 % 3
-7 % 3
7 % -3
-7 % -3
6 % -3
7.5 % 2
-7.5 % 2
7.5 % -2
-6.0 % 3
1 % 0
2 ** 10
2 ** -1
2 ** 0.5
0 ** 0
(-1) ** 3
(-1) ** 4
(-2) ** 3
0 ** 5
1 ** 100000
2 ** 2 ** 3
-2 ** 2
- 3 + 5
+ 3
-'a'
--3
2 + 3 * 4 - 1
(2 + 3) * 4
10 - 4 - 3
100 / 10 / 2
1 ~ 2 ~ 'a'
1 + 1 ~ 2
none ~ ''
1 == 1.0
1 == true
'1' == 1
[1, 2] == [1, 2]
[1] == (1,)
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
{'a': 1} == {'a': 2}
{'a': 1} == {'b': 1}
none == none
none == false
'a' < 'b'
'a' < 'B'
'abc' < 'abd'
'ab' < 'abc'
[1, 2] < [1, 3]
[1] < [1, 0]
[2] < [1, 9]
1 < 2.5
1 < 'a'
none < 1
1 <= 1
2 <= 1
1 >= 1
1 >= 2
2 > 1
1 != 1
1 < 3 > 2
1 < 3 < 2
1 == 1 == 2
'b' in 'abc'
'' in 'abc'
1 in 'abc'
1 in [1, 2]
3 in [1, 2]
1 in (1,)
'a' in {'a': 1}
1 in {'a': 1}
3 not in [1, 2]
1 in 5
'x' in nothing
true and false
true and 5
0 and 5
'' or 'x'
'y' or 'x'
none or false
not none
not ''
not [0]
not true or true
true or false and false
not 1 in [2]
1 if true
1 if false
(1 if false) is defined
1 if false else 2
1 if true else 2 if true else 3
1 if false else 2 if false else 3
none
true
false
True
None
1.0
1e20
1e16
123456789.123
1e-5
0.0001
1.5e300
0.1 + 0.2
-0.0
100000000000000000000.0
[1, 'a', none, true, 1.5]
['it\'s', "say \"x\"", "both ' and \""]
['a\\b', 'a\nb', 'a\tb', 'a\rb', 'a\x01b', 'é']
{'a': [1, {'b': none}]}
(1,)
(1, 2)
()
[]
{}
{'a': 1, 'a': 2}
{1: 'a', 1.0: 'b'}
{[1]: 2}
nothing
nothing.x
nothing[0]
nothing()
'a'()
nothing + 1
1 + nothing
nothing == nothing
nothing | length
nothing | list
nothing is defined
nothing is undefined
1 is defined
1 is not defined
none is none
0 is none
true is boolean
1 is boolean
true is true
1 is true
false is false
0 is false
1 is integer
true is integer
1.0 is integer
1.0 is float
1 is float
1 is number
true is number
'1' is number
'a' is string
1 is string
{} is mapping
[] is mapping
[] is iterable
'a' is iterable
{} is iterable
1 is iterable
() is sequence
'a' is sequence
{} is sequence
1 is sequence
range is callable
1 is callable
1 is sameas 1
1 is sameas true
none is sameas none
true is sameas true
false is sameas 0
1 is sameas(2)
1 is eq 1
1 is eq 2
1 is equalto(1)
1 is ne 2
1 is ne 1
1 is lt 2
2 is lt 1
1 is lessthan(2)
2 is gt 1
1 is gt 1
2 is greaterthan 1
1 is le 1
2 is le 1
1 is ge 1
1 is ge 2
1 is in [1]
2 is in [1]
'ABC' is upper
'AbC' is upper
'abc' is lower
'Abc' is lower
3 is odd
2 is odd
-3 is odd
2 is even
3 is even
0 is even
-2 is even
'a' is odd
6 is divisibleby 3
7 is divisibleby 3
-6 is divisibleby 4
6 is divisibleby(2)
'odd' is test
'nothing' is test
1 is nothing
1 is not odd
2 is not odd
' a ' | trim ~ '|'
'xax' | trim('x')
5 | trim
'aß' | upper
5 | upper
'ABÉ' | lower
5 | string + 'a'
'a' | string
[1] | string + 'a'
'<a&"\'>' | escape
'<a&"\'>' | e
5 | e
'a' | safe
'a' | indent
'a\nb' | indent
'a\nb\n\nc' | indent(2)
'a\nb\n\nc' | indent(2, true)
'a\n\nb' | indent(2, false, true)
'a\n\nb' | indent(width=3, first=true, blank=true)
'a\nb\n' | indent(2) ~ '|'
'a\nb' | indent('>> ')
'a\nb' | indent(0)
'one two  three' | wordcount
'' | wordcount
'a' | center(4) ~ '|'
'a' | center(5) ~ '|'
'ab' | center(5) ~ '|'
'ab' | center(4) ~ '|'
'abcde' | center(3)
'é' | center(3) ~ '|'
'a' | center | length
{'a': 1, 'b': [1, 2.5, none, true, 'é"\\\n']} | tojson
{'b': 1, 'a': 2} | tojson
[] | tojson
{} | tojson
[[], {}] | tojson(indent=2)
{'b': [1, {'c': 2}], 'a': 'x'} | tojson(indent=2)
{'b': 1} | tojson(indent=0)
[1, 2] | tojson(indent=4)
{'é': '你'} | tojson(ensure_ascii=true)
{'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true)
{1: 'a', none: 'b', true: 'c', 1.5: 'd'} | tojson
'a/b<c>' | tojson
'\x7f\x01\u2028' | tojson
1e20 | tojson
1.0 | tojson
(1, 2) | tojson
nothing | tojson
['a', 'b'] | join
['a', 'b'] | join('-')
[1, none, true] | join(',')
[] | join(',')
'abc' | join('-')
{'a': 1, 'b': 2} | join('-')
[{'n': 'x'}, {'n': 'y'}] | join('-', attribute='n')
'ab' | list
(1, 2) | list
{'a': 1} | list
range(3) | list
5 | list
[1, 2] | first
[1, 2] | last
'ab' | first
'ab' | last
[] | first
[] | last
{'a': 1, 'b': 2} | first
[1, 2, 3] | reverse | list
'aéb' | reverse
(1, 2) | reverse | list
[3, 1, 2] | sort
[3, 1, 2] | sort(true)
['b', 'A', 'a', 'B'] | sort
['b', 'A', 'a', 'B'] | sort(case_sensitive=true)
['b', 'A', 'a', 'B'] | sort(reverse=true)
[{'n': 2, 'k': 'x'}, {'n': 1, 'k': 'y'}, {'n': 2, 'k': 'z'}] | sort(attribute='n')
[{'n': 2, 'k': 'x'}, {'n': 1, 'k': 'y'}, {'n': 2, 'k': 'z'}] | sort(attribute='n', reverse=true)
[{'a': {'b': 2}}, {'a': {'b': 1}}] | sort(attribute='a.b')
[[2, 'x'], [1, 'y']] | sort(attribute=0)
[[2, 'x'], [1, 'y']] | sort(attribute='1')
{'b': 1, 'a': 2} | sort
[1, 'a'] | sort
[3, 1, 2] | min
[3, 1, 2] | max
['b', 'A'] | min
['b', 'A'] | min(case_sensitive=true)
['a', 'B'] | max
['a', 'B'] | max(case_sensitive=true)
[{'n': 2}, {'n': 1}] | min(attribute='n')
[{'n': 2}, {'n': 1}] | max(attribute='n')
[] | min
[1, 2, 3] | sum
[1, 2.5] | sum
[] | sum
[1, 2] | sum(start=10)
[{'n': 2}, {'n': 1}] | sum(attribute='n')
[{'n': 2}, {'n': 1}] | sum('n', 5)
['a', 'b'] | sum
[1, 2, 1, 3, 2] | unique | list
['a', 'A', 'b'] | unique | list
['a', 'A', 'b'] | unique(case_sensitive=true) | list
[{'n': 1, 'k': 1}, {'n': 1, 'k': 2}] | unique(attribute='n') | list
[1, true, 1.0] | unique | list
[{'n': 1}, {'n': 2}] | map(attribute='n') | list
[{'n': 1}, {'m': 2}] | map(attribute='n', default=9) | list
[{'n': 1}, {'m': 2}] | map(attribute='n') | list
[{'a': {'b': 3}}] | map(attribute='a.b') | list
[[1, 2], [3, 4]] | map(attribute=1) | list
['a', 'b'] | map('upper') | list
['a b', 'c d'] | map('replace', ' ', '-') | list
[1.256, 2.5] | map('round', 1) | list
[1, 2] | map('nothing') | list
[0, 1, '', 'a', none] | select | list
[0, 1, '', 'a', none] | reject | list
[1, 2, 3] | select('odd') | list
[1, 2, 3] | reject('odd') | list
[1, 2, 3] | select('gt', 1) | list
[1, 2, 3] | reject('in', [1, 3]) | list
[{'n': 1}, {'n': 0}, {'m': 1}] | selectattr('n') | list
[{'n': 1}, {'n': 0}, {'m': 1}] | rejectattr('n') | list
[{'n': 1}, {'n': 0}, {'m': 1}] | selectattr('n', 'defined') | list
[{'n': 1}, {'n': 0}, {'m': 1}] | rejectattr('n', 'defined') | list
[{'n': 1}, {'n': 2}] | selectattr('n', 'equalto', 2) | list
[{'n': 1}, {'n': 2}] | rejectattr('n', 'equalto', 2) | list
[{'n': 1}, {'n': 2}] | selectattr('n', '>=', 2) | list
[{'a': {'b': 1}}, {'a': {'b': 2}}] | selectattr('a.b', '==', 2) | list
{'b': 1, 'a': 2} | items | list
nothing | items | list
5 | items | list
{'b': 1, 'A': 2, 'a': 3} | dictsort
{'b': 1, 'A': 2, 'a': 3} | dictsort(true)
{'b': 1, 'a': 2} | dictsort(by='value')
{'b': 1, 'a': 2} | dictsort(false, 'value', true)
{'b': 1, 'a': 2} | dictsort(reverse=true)
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3, 4] | batch(2) | list
[] | batch(2) | list
'abc' | length
'é你' | length
[1, 2] | count
{'a': 1} | length
5 | length
none | default('x')
nothing | default('x')
nothing | default
'' | default('x')
'' | default('x', true)
0 | d('x', boolean=true)
false | d('x')
'42' | int
' 42 ' | int
'+7' | int
'-7' | int
'4.9' | int
'-4.9' | int
'x' | int
'x' | int(3)
'x' | int(default=3)
4.9 | int
-4.9 | int
true | int
none | int
'1e3' | int
'' | int
'4.5' | float
' 4.5 ' | float
'x' | float
'x' | float(2.5)
3 | float
true | float
none | float(1.0)
-3 | abs
-3.5 | abs
3 | abs
'a' | abs
2.5 | round
3.5 | round
2.567 | round(2)
2.567 | round(2, 'ceil')
2.567 | round(2, 'floor')
2.567 | round(precision=1)
-2.5 | round
1234 | round(-2)
42 | round
2.5 | round(0, 'ceil')
2.5 | round(method='floor')
'a' | round
2.5 | round(0, 'x')
{'a': 1} | attr('a')
[1] | attr('x') is defined
5 | nothing
'a' | upper | lower
'a b' | upper | replace('A', 'x') | trim
-3 | abs + 1
2 * 'a' | length
[1, 2] | length > 1
not [] | length
'x' in 'abc' | upper
range(4) | list
range(1, 4) | list
range(0, 7, 3) | list
range(5, 0, -2) | list
range(0) | list
range(3, 1) | list
range(1, 2, 0) | list
range('a')
range(3)[1]
range(5)[1:3] | list
range(3) | length
dict(a=1, b=2)
dict({'a': 1}, b=2)
dict()
namespace(a=1).a
namespace(a=1).b is defined
namespace({'a': 3}).a
'a' 'b'
'a' "b" 'c'
'\x41\u0042\U00000043\n\t\\\'\"' ~ '|'
'\q\a\b\f\v\r\0' | tojson
1_000
0
007
00
2.675 | round(2)
2.665 | round(2)
0.5 | round
1.5 | round
1.005 | round(2)
1250.0 | round(-2)
1350 | round(-2)
1.23456789 | round(5)
-6.0 % -3
'a1b x_y ÀÉ'.title()
'they\'re bill\'s'.title()
'ab cd'.capitalize()
"aB-cD's" | title
{'items': 3}.items() | list
' a '.split(none, 1)
'a b '.split(none, 2)
' a b'.rsplit(none, 2)
'\u00a0a\u00a0 b '.split(none, 1)
1.
.5
1.5e3
1E-2
2e+3
[1, 2,]
{'a': 1,}
(1)
(1,)[0]
1, 2
dict(a=1)['a']
{'a': [{'b': 'c'}]}['a'][0].b
{'a': 1}.a + 1
'a'.b is defined
'%s' % 'a'
'%s and %s' % ('a', 1)
'%s' % [1, 2]
'%s' % {'a': 1}
'%(b)s-%(a)05.1f' % {'a': 1.25, 'b': none}
'%d|%5d|%-5d|%05d|%+d|% d' % (1, 2, 3, -4, 5, 6)
'%i%u' % (1.9, true)
'%x %X %#x %o %#o' % (255, 255, 255, 8, 8)
'%e %.2E %f %.0f %#.0f %g %G %.3g' % (12345.678, 0.00012, 1.5, 2.5, 2.5, 1e-7, 1e20, 1234.5)
'%r %a %.2s %5s|%-5s|' % ('é', 'é', 'abc', 'x', 'y')
'%c%c %%' % (65, 'b')
'%*d|%-*d|%.*f' % (4, 1, 4, 2, 1, 2.55)
'%.3d' % 5
'%s'
'%s' % ()
'%s' % (1, 2)
'a' % 1
'a' % {}
'%d' % 'a'
'%d' % none
'%y' % 1
'%' % 1
'%(a' % {'a': 1}
'%(a)s' % {'b': 1}
'%(a)s' % 3
'%s' % nothing
'%08.3f' % -3.14159
'%.2f' % 1.234
'{}'.format(1)
'{} {}'.format(1, 'a')
'{1} {0} {1}'.format(1, 'a')
'{a} {b.c} {d[e]} {f[1]}'.format(a=1, b={'c': 2}, d={'e': 3}, f=[4, 5])
'{:.2f}'.format(1.234)
'{:>5}|{:<5}|{:^5}|{:*^7}|{:é<3}'.format('a', 'b', 'c', 'd', 'e')
'{:5}|{:5}|{:05}|{:05}'.format('a', 1, -2, 'b')
'{:+d} {: d} {:d} {:,} {:_} {:08,}'.format(1, 2, 3, 1234567, 1234567, 1234)
'{:x} {:X} {:#x} {:b} {:#b} {:o} {:#010x}'.format(255, 255, 255, 5, 5, 8, 255)
'{:e} {:.1E} {:g} {:.3g} {:%} {:.1%}'.format(12345.678, 0.00012, 1e20, 1234.5, 0.5, 0.125)
'{:.3} {:10.4} {} {:.0f} {:,.2f}'.format(3.14159, 1234.56, 1e16, 2.5, 12345.678)
'{:.3}|{:5.1}|'.format('abcdef', 'xyz')
'{!r} {!s} {!a} {!r:>6}'.format('é', 'b', 'é', 'c')
'{:{}}|{:{w}.{p}}'.format('a', 4, 3.14159, w=8, p=3)
'{{}} {{{}}}'.format(1)
'{} {} {}'.format(none, true, [1, 'a'])
'{:5}'.format(true)
'{:5}'.format(none)
'{:>5}'.format([1])
'{:d}'.format('a')
'{:s}'.format(1)
'{:.2d}'.format(1)
'{:c}{:c}|{:3c}|'.format(65, 233, 66)
'{'.format(1)
'}'.format(1)
'{} {0}'.format(1)
'{0} {}'.format(1)
'{}'.format()
'{a}'.format(b=1)
'{:z}'.format(1)
'{!x}'.format(1)
'{:=+6}|{:=6}'.format(3, -4)
'{:6.2f}|{:<8}|{:^9.1f}|{:g}'.format(1.005, 2.5, 3.25, 3.0)
'{a}-{b}'.format_map({'a': 1, 'b': 2})
'%s-%s' | format(1, 2)
'%(a)s' | format(a=3)
'x' | format
'%s' | format(1, a=2)
('<'|safe) + '<'
'<' + ('<'|safe)
('<'|safe) + ('<'|safe)
('<'|safe) ~ '<'
('<'|escape) + '<'
('<'|escape|escape)
('<'|safe|e)
('<'|safe|forceescape)
('<'|safe) * 2 + '&'
('%s<'|safe) % '<'
('%s %r %d'|safe) % ('<', '<', 3)
('{}<{}'|safe).format('<', '<'|safe)
('<{:>3}'|safe).format('&')
('<'|safe).join(['<', '&'|safe])
('a<b'|safe).upper() + '<'
('a<b'|safe).replace('a', '<')
('a<b'|safe) | replace('a', '<') + '<'
('a<b'|safe).split('<')
('a<b'|safe)[1] + '<'
('a<b'|safe)[1:] + '<'
('a<b'|safe) | upper + '<'
('<a'|safe) | capitalize + '<'
('<a'|safe) | title + '<'
(' <a '|safe) | trim + '<'
('<a'|safe) | string + '<'
('<a'|safe) | reverse + '<'
('<a'|safe) | indent + '<'
('<a'|safe) | center(5) + '<'
('<a b c d e f'|safe) | truncate(6, true, '<')
['<'|safe]
('<'|safe) == '<'
('<'|safe) is escaped
'<' is escaped
('<'|safe) is string
('<'|safe) | tojson
5 | safe + '<'
('<a'|safe).partition('<')
('<a'|safe) + 1
none | selectattr('a') | list
0 | select | list
false | rejectattr('a') | list
none | reject('odd') | list
none | map('upper') | list
0 | map(attribute='a') | list
1 | select | list
true | map('upper') | list
none | list
none | join
none | first
none | sort
none | unique | list
none | sum
none | groupby('a')
none | batch(2) | list
none | slice(2) | list
none | length
none | reverse
{'a': [1, 'é'], 'b': 2} | tojson(separators=(',', ':'))
{'a': [1, 2]} | tojson(separators=(', ', ' = '), indent=2)
{'a': [1, 2]} | tojson(indent=2, separators=(',', ':'))
{'b': 1, 'a': [1]} | tojson(false, 1, (',', ':'), true)
{'b': 1, 'a': [1]} | tojson(true, none)
[1, [2]] | tojson(indent='--')
[1, [2]] | tojson(indent=-1)
[1] | tojson(separators=none)
[1] | tojson(separators=[',', ':'])
'ff' | int(base=16)
'0xff' | int(base=16)
'0xff' | int(0, 16)
'0xff' | int(base=0)
'0o17' | int(base=8)
'0b11' | int(0, 2)
'z' | int(base=36)
'0xff' | int
'ff' | int
'12' | int(5, 2)
'1_000' | int
'_1' | int
'1__0' | int
'-0x1f' | int(base=16)
'010' | int
'010' | int(base=0)
'+5.5' | float
'1_0.5' | float
'inf' | float
'--1' | int
'+-1' | int
'12' | int(base=99)
0x1F
0b101
0o17
0XfF + 0B1 + 0O7
0x_1f
[1, 2, 3] | slice(2) | list
[1, 2, 3, 4, 5, 6, 7] | slice(3) | list
[1, 2, 3, 4, 5, 6, 7] | slice(3, 'x') | list
[1] | slice(3) | list
[] | slice(2, 'x') | list
[1, 2, 3] | slice(0) | list
[1, 2, 3] | batch(2, 'x') | list
[{'n': 1, 'k': 'a'}, {'n': 2, 'k': 'b'}, {'n': 1, 'k': 'c'}] | groupby('n') | list
[{'n': 'B'}, {'n': 'a'}, {'n': 'b'}] | groupby('n') | list
[{'n': 'B'}, {'n': 'a'}, {'n': 'b'}] | groupby('n', case_sensitive=true) | list
[{'n': 1}, {}] | groupby('n', default=1) | list
([{'n': 1}] | groupby('n') | first).grouper
([{'n': 1}] | groupby('n') | first).list
[{'a': {'b': 2}}, {'a': {'b': 1}}] | groupby('a.b') | map('first') | list
{'a': 1} | pprint
{'b': 1, 'a': [1, 'x', none, 1.5, true]} | pprint
'a' | pprint
5 | pprint
{'name': 'get_current_weather', 'description': 'Get the current weather in a given place', 'parameters': {'type': 'object', 'properties': {'location': {'type': 'string'}}}} | pprint
['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', ('cccccccccccccccccccccccccccccc', 'd')] | pprint
'one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen' | pprint
{'k': 'one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen'} | pprint
'line one\nline two which is rather long and goes on and on and on and on and on and on and on\nthree' | pprint
('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',) | pprint
'a b c' | truncate(3)
'foo bar baz qux' | truncate(9)
'foo bar baz qux' | truncate(9, true)
'foo bar baz qux' | truncate(11)
'foo bar baz qux' | truncate(11, false, '...', 0)
'foo bar baz qux' | truncate(9, end='!')
'foo bar baz qux' | truncate(9, leeway=0, killwords=true, end='')
'foo' | truncate(2)
'éééééééééééé' | truncate(5)
'a' | truncate(3, leeway=-1)
'a'.zfill(3)
'-5'.zfill(4)
'+é'.zfill(5)
'abc'.zfill(2)
'aBc É ß'.swapcase()
'a'.ljust(3) ~ '|'
'a'.rjust(3) ~ '|'
'a'.ljust(3, '*')
'a'.center(4) ~ '|'
'ab'.center(5, '*')
'a'.rjust(3, 'ab')
'a b c'.partition(' ')
'a b c'.rpartition(' ')
'abc'.partition(' ')
'abc'.rpartition(' ')
'abc'.isascii()
'é'.isascii()
'12'.isdecimal()
'a b/é' | urlencode
{'a': 1, 'b c': 'é&'} | urlencode
[('a', 1), ('b', 'x y')] | urlencode
'upper' is filter
'nothing' is filter
'random' is filter or 'upper' is filter
dict([('a', 1), ['b', 2]])
dict({'a': 1}, a=2)
dict([1])
dict(1)
""".strip("\n").split("\n")
TEMPLATES = [
    "{% with %}a{% endwith %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% set a = 9 %}{{ a }}{% endwith %}{{ a }}",
    "{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}",
    "{% for i in [1, 2] %}{% with x = i * 2 %}{{ x }}{{ loop.index }}{% if i == 1 %}{% continue %}{% endif %}!{% endwith %}{% endfor %}",
    "{% with a %}{% endwith %}",
    "{% block x %}a{{ bos_token }}{% endblock %}b",
    "{% set y = 1 %}{% block x %}{{ y }}{% set y = 2 %}{{ y }}{% endblock x %}{{ y }}",
    "{% for i in [1, 2] %}{% block x %}{{ i is defined }}{% endblock %}{% endfor %}",
    "{% for i in [1, 2] %}{% block x scoped %}{{ i }}{% endblock %}{% endfor %}",
    "{% block x %}{% block y %}b{% endblock %}{% endblock %}",
    "{% block x %}{% endblock %}{% block x %}{% endblock %}",
    "{% block x %}{% endblock z %}",
    "{% block x required %}{% endblock %}",
    "{% set c = cycler('a', 'b', 'c') %}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}",
    "{% set c = cycler('a', 'b') %}{% for m in messages %}{{ c.next() }}{{ m.role }}{% endfor %}{{ c.current }}",
    "{{ cycler() }}",
    "{% set c = cycler('a') %}{% set c.current = 1 %}{{ c.current }}",
    "{% set j = joiner() %}{% for m in messages %}{{ j() }}{{ m.role }}{% endfor %}",
    "{% set j = joiner(' | ') %}{{ j() }}{{ j() }}{{ j() }}",
    "{% set j = joiner(sep='-') %}{{ j() }}{{ j() }}",
    "{% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}, {'v': 3, 'c': [{'v': 4}]}]}] recursive %}{{ n.v }}d{{ loop.depth }}{{ loop.depth0 }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}",
    "{% for n in [1, 2] %}{{ loop([]) }}{% endfor %}",
    "{% for n in [[1, []], [2]] recursive %}{% if n is iterable %}[{{ loop(n) }}]{% else %}{{ n }}{% endif %}{% endfor %}",
    "{% for g in messages | groupby('role') %}{{ g.grouper }}:{{ g.list | length }} {% endfor %}",
    "{% for role, list in messages | groupby('role') %}{{ role }}:{{ list | length }} {% endfor %}",
    "{% set x %}<b>{% endset %}{{ x + ('<'|safe) }}",
    "{% macro m() %}<{% endmacro %}{{ m() + ('<'|safe) }}",
    "{% include 'x' %}",
    "{% do 1 %}",
    "{{ 0x }}",
    "{{ 0b12 }}",
    "{% for i in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for i in [1, 2] %}{% for j in 'ab' %}{{ loop.depth }}{{ loop.depth0 }}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{{ loop.index }}{% endfor %}",
    "{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }}{% endfor %}",
    "{% for i in [1, 2, 3] %}{{ loop.previtem }}-{{ loop.nextitem }};{% endfor %}",
    "{% for i in [1, 2, 3] %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}",
    "{% for i in [1, 2, 3, 4] %}{{ loop.cycle('a', 'b', 'c') }}{% endfor %}",
    "{% for i in [1] %}{{ loop.cycle() }}{% endfor %}",
    "{% for k, v in [(1, 2), (3, 4)] %}{{ k }}{{ v }}{% endfor %}",
    "{% for k, v in [(1, 2, 3)] %}{{ k }}{% endfor %}",
    "{% for (k, v) in [(1, 2)] %}{{ k }}{{ v }}{% endfor %}",
    "{% for x in {'b': 1, 'a': 2} %}{{ x }}{% endfor %}",
    "{% for x in 'aé' %}{{ x }}.{% endfor %}",
    "{% for x in 5 %}{{ x }}{% endfor %}",
    "{% for x in nothing %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in [1, 2, 3, 4] if x is even %}{{ x }}{{ loop.index }}{{ loop.length }}{% endfor %}",
    "{% for x in [1, 2, 3, 4] if x > 9 %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% else %}never{% endfor %}!",
    "{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}!",
    "{% for x in [1, 2] %}{% for y in [1, 2] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}",
    "{% for x in [1] %}{% set y = x %}{% endfor %}{{ y is defined }}",
    "{% set y = 1 %}{% for x in [5] %}{% set y = x %}{{ y }}{% endfor %}{{ y }}",
    "{% set y = 1 %}{% if true %}{% set y = 2 %}{% endif %}{{ y }}",
    "{% set ns = namespace(n=0) %}{% for x in [5, 6] %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}",
    "{% set d = {'a': 1} %}{% set d.a = 2 %}{{ d }}",
    "{% set a, b = [1, 2] %}{{ b }}{{ a }}",
    "{% set a, b = [1] %}{{ a }}",
    "{% set x %}a{{ 1 + 1 }}b{% endset %}{{ x }}{{ x | length }}",
    "{% set x | upper %}abc{% endset %}{{ x }}",
    "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=5) }}{{ m(b=7, a=8) }}",
    "{% macro m(a) %}{{ a }}|{{ a is defined }}{% endmacro %}{{ m() }}",
    "{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}",
    "{% macro m() %}{{ caller('x', 2) }}{% endmacro %}{% call(a, b) m() %}{{ b }}{{ a }}{% endcall %}",
    "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'a': 2}) }}",
    "{% filter upper | replace('A', '-') %}abca{% endfilter %}",
    "{% if 0 %}a{% elif 1 %}b{% else %}c{% endif %}{% if 0 %}a{% elif 0 %}b{% else %}c{% endif %}{% if 1 %}a{% elif 1 %}b{% endif %}",
    "a\n{% if true %}\nb\n{% endif %}\nc",
    "a\n  {% if true %}  \n  b\n  {% endif %}\nc",
    "a\n  {%- if true -%}  \n  b\n  {%- endif %}\nc",
    "a\n  {%+ if true %}\nb{% endif %}",
    "x {% if true %}\ny{% endif %}",
    "a {{- 'b' -}} c",
    "a\n{{ 'b' }}\nc\n",
    "a\n\n{{- 'b' }}\n\n",
    "{# c #}\na{# d -#}  b{#- e #}",
    "  {# c #}\na",
    "{% raw %}\n {{ a }} \n{% endraw %}\nb",
    "{% raw -%} {{ a }} {%- endraw %} b",
    "a\r\nb\rc",
    "\n\na\n\n",
    "{{ '}}' }}{{ {'a': {'b': 1}} }}",
    "{% if x %}{% endif %}}} {",
    "{{ 1 }",
    "{% if 1 %}",
    "{% endif %}",
    "{% for %}{% endfor %}",
    "{{ }}",
    "{% nothing %}",
    "{{ 'a' | }}",
    "{{ a. }}",
    "{{ a[ }}",
    "{{ (1 }}",
    "{{ 1 1 }}",
    "{{ 'a }}",
    "{# a",
    "{% break %}",
    "{{ [1, 2][0] }}{{ (1, 2)[1] }}",
    "{% if messages[0].role == 'user' and messages | length == 3 %}{{ messages[-1].content }}{% endif %}",
    "{% for m in messages if m.role != 'user' %}{{ loop.index }}{{ m.role }}{% endfor %}",
    "{% for m in messages[1:] %}{{ m['role'] }}{{ loop.first }}{% endfor %}",
    "{% for m in messages[::-1] %}{{ m.role }}{% endfor %}",
    "{{ messages | map(attribute='content') | join('|') }}",
    "{{ messages | tojson(indent=1) }}",
    "{{ bos_token ~ eos_token }}{{ add_generation_prompt }}{{ tools is none }}{{ tools is defined }}{{ documents }}",
    "{%- set loop_messages = messages -%}{%- for message in loop_messages %}{{ '<' + message['role'] + '>' + message['content'] | trim }}{%- endfor %}",
    "{{ raise_exception('x') }}",
    "{% set messages = messages[1:] %}{{ messages | length }}",
    "{% for m in messages %}{% set content = m.content %}{% if loop.index0 == 0 %}{% set content = 'S' ~ content %}{% endif %}{{ content }}{% endfor %}",
]
# What there is nothing for: refused, where Jinja goes on.
REFUSED = r"""
'abc'['a':]
{}[1:]
'a'.encode()
'http://a.b' | urlize
{'a': 1} | xmlattr
'<b>x</b>' | striptags
'a b c' | wordwrap(3)
[1] | random
lipsum()
""".strip("\n").split("\n")
MESSAGES = [dict(role="user", content=" Hi\n there "), dict(role="assistant", content="Yes"), dict(role="user", content="Bye é")]
rows = []
for t in ["{{ %s }}" % e for e in EXPRESSIONS] + TEMPLATES:
    try:
        text = _compile_jinja_template(t).render(messages=MESSAGES, tools=None, documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>")
    except Exception as e:
        text = None
    rows.append([t, text])
with open(os.path.join(sys.argv[1], "jinja_words.json"), "w") as f:
    f.write('{"messages":%s,"refused":%s,"rows":[\n%s\n]}\n' % (json.dumps(MESSAGES), json.dumps(["{{ %s }}" % e for e in REFUSED]), ",\n".join(json.dumps(r) for r in rows)))
