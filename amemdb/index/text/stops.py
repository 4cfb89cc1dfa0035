"""Words that say little of what a text is about: articles, pronouns, prepositions, and the words of questions.

They are searched for like others and weigh less. How rare a word is tells most of its weight by itself; yet among a few
hundred texts chance decides how rare "did" and "when" are, and every question has them. The lists hold only closed
classes of words, so that nothing that a text can be about is among them. Written as `folding.fold` gives them.
"""

from __future__ import annotations

_ENGLISH = """
a an the this that these those there here
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves one ones
who whom whose which what when where why how
am is are was were be been being do does did doing done have has had having will would shall should can could may might
must ought
and or but nor so yet if then than because while as until though although whether
of at by for with about against between into through during before after above below to from up down in out on off over
under again further upon within without toward towards among across around along
not no yes any all both each few more most other others another some such only own same too very just also even ever
im ive id youre youve hes shes theyre weve dont doesnt didnt isnt arent wasnt werent wont wouldnt couldnt shouldnt
cant hasnt havent hadnt thats whats lets s t
"""
_GERMAN = """
der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner
ich mich mir mein meine meinen meinem meiner du dich dir dein deine er ihn ihm sein seine sie ihr ihre es wir uns unser
unsere euch euer man sich selbst
wer wen wem wessen was wann wo woher wohin warum wieso weshalb wie welche welcher welches welchen
bin bist ist sind seid war warst waren wart sein gewesen habe hast hat haben habt hatte hatten werde wird werden wurde
wurden worden kann konnen konnte muss mussen soll sollen will wollen darf durfen
und oder aber denn sondern doch wenn als ob dass weil damit obwohl so
in im an am auf aus bei beim bis durch fur gegen mit nach ohne um unter uber vom von vor zu zum zur zwischen
nicht nur noch auch schon sehr dann da dort hier ja nein
"""
_FRENCH = """
le la les l un une des du de d au aux ce cet cette ces
je j me m moi mon ma mes tu te t toi ton ta tes il elle on se s soi son sa ses nous notre nos vous votre vos ils elles
leur leurs lui eux y en
qui que qu quoi dont ou quand comment pourquoi combien quel quelle quels quelles
suis es est sommes etes sont etait etaient ete etre ai as a avons avez ont avait avaient eu avoir fait
et mais donc or ni car si comme
dans par pour sur sous avec sans entre vers chez depuis pendant
ne n pas plus tout tous toute toutes aussi tres meme
"""
_SPANISH = """
el la los las lo un una unos unas al del este esta estos estas ese esa esos esas eso esto
yo me mi mis tu te ti tus usted ustedes el ella ello nos nosotros nuestro nuestra vosotros os ellos ellas se su sus le
les
quien quienes que cual cuales cuando donde como por porque cuanto
soy eres es somos son era eran fue fueron ser sido estoy estas esta estan estaba he has ha hemos han habia haber hay
y e o u pero ni si aunque pues
de a en con sin sobre entre hasta desde para hacia
no mas muy ya tambien tan todo todos toda todas
"""
_ITALIAN = """
il lo la i gli le l un uno una del dello della dei degli delle al allo alla ai agli alle dal dalla nel nella nei nelle
sul sulla questo questa questi queste quello quella
io mi me mio mia tu ti te tuo tua egli lui lei suo sua noi ci nostro nostra voi vi vostro vostra essi loro si
chi che cui cosa quale quali quando dove come perche quanto
sono sei e siamo siete era erano essere stato ho hai ha abbiamo hanno aveva avere
ed o ma se anche pero
di a da in con su per tra fra
non piu molto gia tutto tutti
"""
_PORTUGUESE = """
o a os as um uma uns umas do da dos das no na nos nas ao aos pelo pela este esta isto esse essa isso aquele aquela
eu me mim meu minha tu te ti teu tua voce voces ele ela seu sua nos nosso nossa eles elas lhe lhes se
quem que qual quais quando onde como porque quanto
sou es e somos sao era eram foi foram ser sido estou esta estao estava tenho tem temos tinha ter ha
ou mas nem pois
de em por para com sem sobre entre ate desde
nao mais muito ja tambem tudo todos
"""
_DUTCH = """
de het een der des deze die dit dat
ik mij me mijn jij je jou jouw u uw hij hem zijn zij ze haar wij we ons onze jullie hun hen zich men
wie wat waar wanneer waarom hoe welke welk
ben bent is was waren geweest heb hebt heeft hebben had hadden word wordt worden werd werden zal zullen zou kan kunnen
moet moeten wil
en of maar want dus als dan omdat toen
in aan op uit bij door voor tegen met na naar zonder om onder over van te tot tussen
niet geen nog ook al er hier daar
"""

STOPS: dict[str, frozenset[str]] = {
    "english": frozenset(_ENGLISH.split()),
    "german": frozenset(_GERMAN.split()),
    "french": frozenset(_FRENCH.split()),
    "spanish": frozenset(_SPANISH.split()),
    "italian": frozenset(_ITALIAN.split()),
    "portuguese": frozenset(_PORTUGUESE.split()),
    "dutch": frozenset(_DUTCH.split()),
}
"""By the name of a language's stemmer. Where there is no list, rarity alone decides."""
